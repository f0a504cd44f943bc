"""Which database an admin command works on, and its transactions.

The store is imported when a command runs: its libraries come with the extra `server`, and the other
commands start without them.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from runtime.commands.session import console
from runtime.control.backend import DATABASE_VARIABLE as VARIABLE
from runtime.errors import Problem, SettingsError, SetupError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from runtime.control.store.store import Store

DatabaseOption = Annotated[
    str | None,
    typer.Option(help=f"URL of the database; default: {VARIABLE}, else control.db in PADDOCK_HOME"),
]


@contextmanager
def reading(database: str | None) -> Iterator["Connection"]:
    """Yield a connection for reading."""
    with opened(database) as store, store.read() as connection:
        yield connection


@contextmanager
def writing(database: str | None) -> Iterator["Connection"]:
    """Yield a connection whose writes are kept when the block ends well."""
    with opened(database) as store, store.write() as connection:
        yield connection


def choose_url(database: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the flag or of the environment, None where neither names one.

    Raises SettingsError for a flag with a password, which every process list shows.
    """
    if database is None:
        return environ.get(VARIABLE) or None
    from runtime.control.store.store import read_url

    if read_url(database).password is not None:
        problem = Problem(
            loc=("database",),
            message="holds a password, and arguments are visible to every user of this machine",
            fix=f"set {VARIABLE}, or keep the password in ~/.pgpass",
        )
        raise SettingsError([problem], source="database")
    return database


def named_url(database: str | None) -> str:
    """Return the URL of the database that a command works on. Raises SetupError and SettingsError.

    Whoever has it may import the store.
    """
    try:
        from runtime.control.store.store import default_url
    except ModuleNotFoundError as error:
        raise SetupError(
            f"the control plane needs {error.name}: install paddock with its extra `server`"
        ) from None
    return choose_url(database, os.environ) or default_url()


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print rows under their headings."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)


@contextmanager
def opened(database: str | None) -> Iterator["Store"]:
    """Open the database that a command works on."""
    url = named_url(database)
    from runtime.control.store.store import open_store

    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
