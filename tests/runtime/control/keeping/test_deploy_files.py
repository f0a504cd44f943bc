"""deploy/ and docs/operations.md: they name versions, commands and settings that there are."""

import re
import tomllib
from pathlib import Path

import pytest
import typer

from runtime.cli import app
from runtime.control.app import DEFAULT_PORT, MAX_BODY_BYTES

ROOT = Path(__file__).resolve().parents[4]
DOCUMENT = (ROOT / "docs" / "operations.md").read_text()
IMAGE = (ROOT / "deploy" / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "paddock.service").read_text()


def pinned(package: str) -> str:
    """Return the version that pyproject.toml pins a package to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    (found,) = {
        line.partition("==")[2]
        for group in groups
        for line in group
        if line.startswith(f"{package}==")
    }
    return found


@pytest.mark.parametrize(
    ("argument", "package"), [("PULUMI", "pulumi"), ("KUBERNETES_PLUGIN", "pulumi-kubernetes")]
)
def test_the_image_has_the_engine_that_the_project_pins(argument: str, package: str) -> None:
    assert f"ARG {argument}={pinned(package)}\n" in IMAGE


def test_the_image_copies_what_there_is_and_ignores_the_rest() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", IMAGE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    assert all((ROOT / name).exists() for name in names)
    assert {line[1:] for line in ignore if line.startswith("!")} == names
    assert ignore[0] == "**"


def test_the_unit_ends_the_server_alone() -> None:
    settings = dict(
        line.split("=", 1) for line in UNIT.splitlines() if "=" in line and line[0] not in "#["
    )

    assert settings["KillMode"] == "process"
    assert settings["ExecStart"].endswith(f"paddock serve --host 127.0.0.1 --port {DEFAULT_PORT}")
    assert settings["StateDirectoryMode"] == "0700"
    assert "PrivateTmp" not in settings


@pytest.mark.parametrize("text", [DOCUMENT, IMAGE, UNIT])
def test_no_secret_is_an_argument_or_in_the_image(text: str) -> None:
    assert not re.search(r"(PASSPHRASE|TOKEN|API_KEY)=(?!\.\.\.)\w", text)


def test_the_document_names_commands_that_there_are() -> None:
    table = typer.main.get_command(app)
    lines = re.findall(r"^paddock (.+)$", DOCUMENT, re.MULTILINE)
    lines += re.findall(r"`paddock ([a-z][^`]*)`", DOCUMENT)

    assert len(lines) > 6
    for line in lines:
        words = line.split()
        command = table
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"paddock {line}"  # type: ignore[attr-defined]  # a group
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]  # a group


def test_the_proxy_lets_the_largest_request_through() -> None:
    (size,) = re.findall(r"client_max_body_size (\d+)m;", DOCUMENT)

    assert int(size) * 2**20 >= MAX_BODY_BYTES
