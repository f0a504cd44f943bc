"""`paddock backup` and `paddock restore`: the control plane's database, while it is in use or not.

Of Postgres they name the command that does it. What else an operator has to keep is in
docs/operations.md.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, named_url
from runtime.errors import NotFoundError, StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL


def backup(
    file: Annotated[Path, typer.Argument(help="file of the backup; one that is there is replaced")],
    database: DatabaseOption = None,
) -> None:
    """Copy the database of the control plane, while servers use it."""
    url = _url(database)
    path = Path(url.database or "")
    if url.get_backend_name() == "sqlite" and not path.is_file():
        raise NotFoundError(f"no database {path}: name it with --database")
    if not (folder := file.absolute().parent).is_dir():
        raise NotFoundError(f"no folder {folder}: make it, or name another file")
    from runtime.control.store.backup import back_up

    back_up(url, file.absolute())
    shown = url.render_as_string(hide_password=True)
    typer.echo(f"{shown} is copied to {file}, {file.stat().st_size:,} bytes")


def restore(
    file: Annotated[Path, typer.Argument(help="backup to put in the database's place")],
    database: DatabaseOption = None,
) -> None:
    """Put a backup in the place of the database; no server may be running."""
    url = _url(database)
    if url.get_backend_name() != "sqlite":
        shown = url.set(drivername="postgresql").render_as_string(hide_password=True)
        raise StoreError(
            "Postgres restores its own backup: stop every server, then pg_restore --clean "
            f"--if-exists --dbname={shown} {file}"
        )
    from runtime.control.presence import lock_out_servers
    from runtime.control.store import restore as restoring

    path = Path(url.database or "").absolute()
    if not path.parent.is_dir():
        raise NotFoundError(f"no folder {path.parent}: make it, or name another database")
    with lock_out_servers(path):
        restored = restoring.restore(file, path)
    typer.echo(f"{path} has {restored.num_runs} runs again")
    if restored.replaced is not None:
        typer.echo(f"what was there is in {restored.replaced}")


def _url(database: str | None) -> "URL":
    url = named_url(database)
    from runtime.control.store.store import read_url

    return read_url(url)
