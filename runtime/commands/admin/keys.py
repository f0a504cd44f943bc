"""`paddock key`: API keys. A token is printed once, when it is made, and kept nowhere."""

from dataclasses import asdict
from typing import Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, print_table, reading, writing
from runtime.commands.admin.users import UserArgument
from runtime.commands.session import Output, OutputOption, print_json, say
from runtime.errors import NotFoundError, Problem, RefusedError

key_app = typer.Typer(no_args_is_help=True, help="The API keys of the control plane.")


@key_app.command("add")
def add_key(
    user: UserArgument,
    name: Annotated[str, typer.Option(help="what the key is for")] = "",
    team: Annotated[
        str | None, typer.Option(help="team that runs of this key belong to, where they name none")
    ] = None,
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a key of a user and print its token, which nobody can read again."""
    with writing(database) as tx:
        from runtime.control.store import keys, users

        owner = users.find_user(tx, user)
        found = users.find_team(tx, team) if team else None
        if found is not None and not users.is_member(tx, found.team_id, owner.user_id):
            message = f"{owner.slug} is no member of {found.slug}"
            fix = f"paddock team join {found.slug} {owner.slug}"
            raise RefusedError([Problem(message=message, fix=fix)], source="key add")
        key, token = keys.add_key(
            tx,
            user_id=owner.user_id,
            name=name,
            team_id=found.team_id if found else None,
        )
    if output is Output.JSON:
        return print_json({**asdict(key), "token": token})
    say(f"Key {key.key_id} of {owner.slug} is made; its token is shown this once:")
    return typer.echo(token)


@key_app.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="id, email or slug; default: all")] = None,
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List keys, revoked ones too."""
    with reading(database) as tx:
        from runtime.control.store import keys, users

        owners = {owner.user_id: owner.slug for owner in users.list_users(tx)}
        found = keys.list_keys(tx, users.find_user(tx, user).user_id if user else None)
    if output is Output.JSON:
        return print_json([asdict(key) for key in found])
    rows = [
        [
            key.key_id,
            owners[key.user_id],
            key.name,
            f"{key.prefix}...",
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"revoked {key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
        ]
        for key in found
    ]
    return print_table(["ID", "USER", "NAME", "TOKEN", "CREATED (UTC)", ""], rows)


@key_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="id of the key, of `paddock key list`")],
    database: DatabaseOption = None,
) -> None:
    """Revoke a key for good: requests with it are refused from now on."""
    with writing(database) as tx:
        from runtime.control.store import keys

        was_valid = keys.revoke_key(tx, key_id)
        is_known = was_valid or key_id in {key.key_id for key in keys.list_keys(tx)}
    if not is_known:
        raise NotFoundError(f"no key {key_id}: `paddock key list` shows all")
    typer.echo(f"Key {key_id} {'is' if was_valid else 'was already'} revoked")
