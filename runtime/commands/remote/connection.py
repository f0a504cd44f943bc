"""The server that a command asks, and the options and the printing that its commands share."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from runtime.client.printable import printable
from runtime.commands.session import console
from runtime.errors import Problem, SettingsError

if TYPE_CHECKING:
    from runtime.client.api import Api

ServerOption = Annotated[
    str | None,
    typer.Option(help="address of the server; default: PADDOCK_SERVER, else that of paddock login"),
]
RunIdArgument = Annotated[str, typer.Argument(help="id of the run")]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="do not ask")]


@contextmanager
def connected(server: str | None) -> Iterator["Api"]:
    """Yield the API of the server that is named by flag, environment or login."""
    from runtime.client.api import open_api
    from runtime.client.settings import choose_server

    with open_api(choose_server(server, os.environ)) as api:
        yield api


def confirm(question: str, *, is_forced: bool, flag: str = "--force") -> None:
    """Ask, and end the command where the answer is no. Raises SettingsError without an answer."""
    if is_forced:
        return
    sys.stderr.write(f"{question} [y/N]: ")  # not on stdout, which is the result
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        problem = Problem(message="nobody answered the question", fix=f"pass {flag} to skip it")
        raise SettingsError([problem], source="confirmation")
    if answer.strip().lower() in {"y", "yes"}:
        return
    typer.echo("Cancelled.")
    raise typer.Exit(0)


def print_rows(columns: list[str], rows: list[list[str]]) -> None:
    """Print rows under their headings, brackets and all."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)


def minute(time: datetime | None) -> str:
    """Return a time as the server says it, which is UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M}" if time is not None else ""
