"""deploy/ and docs/operations.md: they name versions, commands and settings that there are."""

import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runtime.cli import app
from runtime.cluster_settings import LocalClusterSettings
from runtime.control.app import DEFAULT_PORT, MAX_BODY_BYTES
from runtime.control.operations import OperatorLimits
from toolchain.engine_bin import EXECUTABLES

ROOT = Path(__file__).resolve().parents[4]
DOCUMENT = (ROOT / "docs" / "operations.md").read_text()
IMAGE = (ROOT / "deploy" / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "paddock.service").read_text()

IMPORTER = """
import importlib, json, sys
from importlib import metadata
from packaging.utils import canonicalize_name

wanted = set(json.loads(sys.argv[1]))
packages = metadata.packages_distributions()

class Absent:
    def find_spec(self, name, path=None, target=None):
        owners = {canonicalize_name(one) for one in packages.get(name.partition(".")[0], [])}
        if owners and not owners & wanted:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
    del sys.modules[name]
sys.meta_path.insert(0, Absent())
for name in (
    "runtime.cli", "runtime.commands.serve", "runtime.control.app", "runtime.control.assembly",
    "runtime.control.worker", "runtime.control.cluster_source", "runtime.kubernetes_api",
    "runtime.supervisor_client", "infra.program", "infra.targets.kubernetes", "psycopg",
):
    importlib.import_module(name)
"""
"""Imports what the image runs, as if no other package were installed than those named."""


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


def test_the_image_has_every_executable_that_the_engine_starts() -> None:
    (line,) = re.findall(r"^COPY --from=engine (.+) \S+$", IMAGE, re.MULTILINE)
    patterns = [Path(one).name for one in line.split()]

    for name in ("pulumi", *EXECUTABLES):
        assert any(fnmatch(name, pattern) for pattern in patterns), name


def test_the_image_installs_nothing_of_an_open_version() -> None:
    installs = re.findall(r"\bpip install (?:--?\S+(?: \.venv)? )*(\S+)", IMAGE)
    (uv,) = re.findall(r"^ARG UV=(\d+\.\d+\.\d+)$", IMAGE, re.MULTILINE)

    # the other two are the lock, by hash, and the checkout itself
    assert installs == ["uv==${UV}", "/tmp/server.lock", "."]
    assert uv


def test_the_image_copies_what_there_is_and_ignores_the_rest() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", IMAGE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    assert all((ROOT / name).exists() for name in names)
    assert {line[1:] for line in ignore if line.startswith("!")} == names
    assert ignore[0] == "**"


def test_the_image_installs_all_that_its_server_imports() -> None:
    (extras,) = re.findall(r"uv pip compile pyproject.toml ((?:--extra \w+ )+)", IMAGE)
    wanted = distributions(set(re.findall(r"--extra (\w+)", extras)))
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    argv = [sys.executable, "-c", IMPORTER, json.dumps(sorted(wanted))]

    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert wanted - {"paddock"} <= locked
    assert not wanted & {"torch", "transformers", "verifiers", "pytest"}
    assert said.returncode == 0, said.stderr


def distributions(extras: set[str]) -> set[str]:
    """Return the project and all that it requires with some extras, by normalised names."""
    found: dict[str, set[str]] = {}
    open_ends = [("paddock", extras)]
    while open_ends:
        name, wanted = open_ends.pop()
        if name in found and wanted <= found[name]:
            continue
        found[name] = found.get(name, set()) | wanted
        for line in metadata.requires(name) or []:
            one = Requirement(line)
            asked = [{"extra": extra} for extra in found[name]] or [{"extra": ""}]
            if one.marker is None or any(one.marker.evaluate(extra) for extra in asked):
                open_ends.append((canonicalize_name(one.name), set(one.extras)))
    return set(found)


def test_the_unit_ends_the_server_alone() -> None:
    settings = dict(
        line.split("=", 1) for line in UNIT.splitlines() if "=" in line and line[0] not in "#["
    )

    assert settings["KillMode"] == "process"
    # requests have 10 s, and the last pass of each loop up to 30
    assert int(settings["TimeoutStopSec"]) >= OperatorLimits().drain_s + 40
    assert "--end-operations" not in settings["ExecStart"]
    assert settings["ExecStart"].endswith(f"paddock serve --host 127.0.0.1 --port {DEFAULT_PORT}")
    assert settings["StateDirectoryMode"] == "0700"
    assert "PrivateTmp" not in settings
    # all else is read-only: where a local cluster keeps its runs unless it is told otherwise
    assert settings["ProtectSystem"] == "strict"
    runs = LocalClusterSettings.model_fields["runs_path"].default
    written = re.findall(r"^ReadWritePaths=(.+)$", UNIT, re.MULTILINE)
    assert written == [f"-{settings['WorkingDirectory']}/{runs}", "/tmp /var/tmp"]


def test_the_image_interrupts_operations_before_docker_kills_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = dict(re.findall(r"(PADDOCK_(?:DRAIN|END_OPERATIONS))=(\d+)", IMAGE))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]  # a group

    given = command.make_context("serve", []).params

    assert given["end_operations"] is True
    assert 0 < given["drain"] <= 5
    assert all(f"| `{name}` |" in DOCUMENT for name in variables)


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
