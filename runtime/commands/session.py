"""What every command needs: the project directory, its environment, and how results are printed."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from runtime import naming
from runtime.control.backend import pulumi_environment
from runtime.control.stacks import Project
from runtime.errors import NotFoundError


class Output(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


_WIDE = 240
"""Columns of a table that goes into a pipe or a file."""

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text or json")]
RunArgument = Annotated[str, typer.Argument(help="id of the run, which is its stack's name")]


def find_project() -> Path:
    """Return the nearest folder upwards that holds paddock's Pulumi.yaml, else this checkout.

    Raises NotFoundError where there is neither.
    """
    here = Path.cwd()
    installed = Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents, installed):
        file = folder / "Pulumi.yaml"
        if file.is_file() and f"name: {naming.PROJECT}" in file.read_text():
            return folder
    raise NotFoundError(
        f"no paddock project: no Pulumi.yaml of {naming.PROJECT} in {here} or above it"
    )


def open_project() -> Project:
    """Return the project with the environment in which `pulumi` works."""
    return Project(path=find_project(), environment=pulumi_environment(os.environ))


def offline_project() -> Project:
    """Return the project for commands that never run `pulumi`; needs no engine."""
    return Project(path=find_project(), environment={})


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print a value as JSON on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def console() -> Console:
    """Return the console for text results; one that is no terminal cuts no cell of a table.

    Texts are printed as they are: names, images and reasons may hold [brackets] and :colons:.
    """
    width = None if sys.stdout.isatty() else _WIDE
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True, width=width)


def say(text: str) -> None:
    """Print a line of progress on stderr, so that stdout stays the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
