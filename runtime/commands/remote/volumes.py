"""`paddock volumes`: volumes of a server, on which runs keep checkpoints and find models."""

from typing import Annotated

import typer

from runtime.commands.remote.connection import ServerOption, confirm, connected, print_rows
from runtime.commands.session import Output, OutputOption, print_json

volumes_app = typer.Typer(no_args_is_help=True, help="Volumes of a server, for --volume.")

_LABELS = {"RUNNING": "CREATED", "TERMINATING": "DELETING", "TOMBSTONED": "DELETE FAILED"}
"""States of a claim in the words of a volume, as the `prime` client says them."""

NameArgument = Annotated[str, typer.Argument(help="name of the volume")]


@volumes_app.command("create")
def create(
    name: NameArgument,
    size: Annotated[str | None, typer.Option(help="e.g. 500Gi; default: the server's")] = None,
    cluster: Annotated[str | None, typer.Option(help="cluster; default: the server picks")] = None,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a volume."""
    with connected(server) as api:
        from runtime.client import catalog

        volume = catalog.create_volume(api, name, size=size, cluster=cluster)
    if output is Output.JSON:
        print_json(volume.model_dump(mode="json", by_alias=True))
        return
    typer.echo(f"Volume {volume.name} ({volume.size}) is {_label(volume.status)}.")
    typer.echo(f"Use it with: paddock train config.toml --volume {volume.name}")


@volumes_app.command("list")
def list_volumes(server: ServerOption = None, output: OutputOption = Output.TEXT) -> None:
    """List your volumes."""
    with connected(server) as api:
        from runtime.client import catalog

        found = catalog.list_volumes(api)
    if output is Output.JSON:
        print_json([volume.model_dump(mode="json", by_alias=True) for volume in found])
        return
    if not found:
        typer.echo("No volumes. Make one with: paddock volumes create NAME")
        return
    rows = [
        [
            volume.name,
            volume.size or "-",
            _label(volume.status),
            volume.cluster or "-",
            volume.created_at or "-",
            volume.created_by_name or volume.created_by or "",
            volume.reason,
        ]
        for volume in found
    ]
    print_rows(["NAME", "SIZE", "STATUS", "CLUSTER", "CREATED", "CREATED BY", ""], rows)


@volumes_app.command("expand")
def expand(
    name: NameArgument,
    size: Annotated[str, typer.Option(help="new size, larger than the current one")],
    server: ServerOption = None,
) -> None:
    """Make a volume larger; it cannot shrink."""
    with connected(server) as api:
        from runtime.client import catalog

        volume = catalog.expand_volume(api, name, size)
    typer.echo(f"Volume {volume.name} is now {volume.size}.")


@volumes_app.command("delete")
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    server: ServerOption = None,
) -> None:
    """Delete a volume and everything on it."""
    confirm(f"Delete volume {name} and all run data on it?", is_forced=yes, flag="--yes")
    with connected(server) as api:
        from runtime.client import catalog

        catalog.delete_volume(api, name)
    typer.echo(f"Deleting volume {name}.")


def _label(status: str) -> str:
    return _LABELS.get(status, status)
