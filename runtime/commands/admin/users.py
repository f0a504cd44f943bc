"""`paddock user` and `paddock team`: people, and the groups that see one another's runs."""

from dataclasses import asdict
from typing import Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, print_table, reading, writing
from runtime.commands.session import Output, OutputOption, print_json

user_app = typer.Typer(no_args_is_help=True, help="The users of the control plane.")
team_app = typer.Typer(no_args_is_help=True, help="The teams of the control plane.")

UserArgument = Annotated[str, typer.Argument(help="id, email or slug of the user")]
TeamArgument = Annotated[str, typer.Argument(help="id or slug of the team")]
SlugOption = Annotated[str, typer.Option(help="short name for links; default: from the name")]


@user_app.command("add")
def add_user(
    name: Annotated[str, typer.Argument(help="name as it is shown")],
    email: Annotated[str, typer.Option(help="email address")],
    admin: Annotated[bool, typer.Option("--admin", help="may see and stop every run")] = False,
    slug: SlugOption = "",
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a user; `paddock key add` gives them a key."""
    with writing(database) as tx:
        from runtime.control.store import users

        user = users.add_user(tx, name=name, email=email, is_admin=admin, slug=slug)
    if output is Output.JSON:
        return print_json(asdict(user))
    return typer.echo(f"User {user.slug} is made: {user.user_id}")


@user_app.command("list")
def list_users(database: DatabaseOption = None, output: OutputOption = Output.TEXT) -> None:
    """List all users."""
    with reading(database) as tx:
        from runtime.control.store import users

        found = users.list_users(tx)
    if output is Output.JSON:
        return print_json([asdict(user) for user in found])
    rows = [
        [user.slug, user.name, user.email, "admin" if user.is_admin else "", user.user_id]
        for user in found
    ]
    return print_table(["SLUG", "NAME", "EMAIL", "ROLE", "ID"], rows)


@team_app.command("add")
def add_team(
    name: Annotated[str, typer.Argument(help="name as it is shown")],
    slug: SlugOption = "",
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a team without members; `paddock team join` adds them."""
    with writing(database) as tx:
        from runtime.control.store import users

        team = users.add_team(tx, name=name, slug=slug)
    if output is Output.JSON:
        return print_json(asdict(team))
    return typer.echo(f"Team {team.slug} is made: {team.team_id}")


@team_app.command("list")
def list_teams(database: DatabaseOption = None, output: OutputOption = Output.TEXT) -> None:
    """List all teams with their members."""
    with reading(database) as tx:
        from runtime.control.store import users

        found = {team: users.list_members(tx, team.team_id) for team in users.list_teams(tx)}
    if output is Output.JSON:
        return print_json(
            [
                {**asdict(team), "members": [asdict(member) for member in members]}
                for team, members in found.items()
            ]
        )
    rows = [
        [team.slug, team.name, ", ".join(member.slug for member in members), team.team_id]
        for team, members in found.items()
    ]
    return print_table(["SLUG", "NAME", "MEMBERS", "ID"], rows)


@team_app.command("join")
def join_team(team: TeamArgument, user: UserArgument, database: DatabaseOption = None) -> None:
    """Make a user a member of a team."""
    with writing(database) as tx:
        from runtime.control.store import users

        found, member = users.find_team(tx, team), users.find_user(tx, user)
        users.add_member(tx, found.team_id, member.user_id)
    typer.echo(f"{member.slug} is a member of {found.slug}")


@team_app.command("leave")
def leave_team(team: TeamArgument, user: UserArgument, database: DatabaseOption = None) -> None:
    """Take a user out of a team and revoke their keys of it; their runs stay and go on."""
    with writing(database) as tx:
        from runtime.control.store import users

        found, member = users.find_team(tx, team), users.find_user(tx, user)
        was_member = users.remove_member(tx, found.team_id, member.user_id)
    said = "is no member any more" if was_member else "was no member"
    typer.echo(f"{member.slug} {said} of {found.slug}; keys for it are revoked")
