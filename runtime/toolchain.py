"""Finds the Pulumi engine that `make setup` provides, or the user's own; it builds nothing.

Called by `paddock env`, by `runtime.control.backend` and by `make setup` itself. A user's
official Pulumi on PATH always comes first; else the engine that `make setup` put into this venv.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError

ENGINE_BIN_NAME = "paddock-engine"  # a folder of the venv: two checkouts never share one
ENGINE_MARKER = "paddock-engine.json"  # tells an engine of ours from an official one
LANGUAGE_HOST = "pulumi-language-python"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A Pulumi engine that can run Python programs, and the directories that it needs on PATH."""

    pulumi: Path
    bin_dirs: tuple[Path, ...]
    official: bool


def engine_bin_dir(prefix: Path | None = None) -> Path:
    """Return where `make setup` puts the engine and its Python host: a folder of the venv."""
    return (prefix or Path(sys.prefix)) / ENGINE_BIN_NAME


def find_engine(search_path: str | None = None) -> Engine:
    """Return the engine to use; `search_path` stands for PATH.

    Raises SetupError when there is none.
    """
    path = os.environ.get("PATH", "") if search_path is None else search_path
    official = find_official_engine(path)
    if official is not None:
        return official
    own_dir = engine_bin_dir()
    if _is_executable(own_dir / "pulumi") and _is_executable(own_dir / LANGUAGE_HOST):
        return Engine(pulumi=own_dir / "pulumi", bin_dirs=(own_dir,), official=False)
    raise SetupError(
        f"no Pulumi engine: neither an official pulumi with its {LANGUAGE_HOST} on PATH, nor one "
        f"in {own_dir}: run `make setup` in the checkout, or install Pulumi"
    )


def find_official_engine(search_path: str) -> Engine | None:
    """Return the first pulumi on a PATH that is none of ours and has its Python host."""
    for entry in search_path.split(os.pathsep):
        directory = Path(entry)
        pulumi = directory / "pulumi"
        if not entry or not _is_executable(pulumi) or (directory / ENGINE_MARKER).exists():
            continue
        host_dir = _find_language_host(pulumi, search_path=search_path)
        if host_dir is not None:
            bin_dirs = tuple(dict.fromkeys((directory, host_dir)))
            return Engine(pulumi=pulumi, bin_dirs=bin_dirs, official=True)
    return None


def engine_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of an environment in which `pulumi` works as typed.

    PATH is extended, update checks are off, an Output used as text is an error, and plugins on
    PATH are allowed. Backend and passphrase are not this function's business.
    Raises SetupError when there is no engine.
    """
    environment = dict(base)
    path = environment.get("PATH", os.defpath)
    engine = find_engine(path)
    directories = [str(directory) for directory in engine.bin_dirs]
    entries = [entry for entry in path.split(os.pathsep) if entry and entry not in directories]
    venv_bin = str(Path(sys.prefix) / "bin")
    tail = [] if venv_bin in entries else [venv_bin]  # last: `paddock` and `uv`, no other python
    environment["PATH"] = os.pathsep.join([*directories, *entries, *tail])
    environment["PULUMI_SKIP_UPDATE_CHECK"] = "true"
    environment["PULUMI_ERROR_OUTPUT_STRING"] = "1"
    environment.pop("PULUMI_IGNORE_AMBIENT_PLUGINS", None)
    return environment


def _find_language_host(pulumi: Path, *, search_path: str) -> Path | None:
    """Return the directory of the host that this pulumi would start: on PATH, or beside itself."""
    for entry in (*search_path.split(os.pathsep), str(pulumi.parent), str(pulumi.resolve().parent)):
        directory = Path(entry)
        if not entry or (directory / ENGINE_MARKER).exists():
            continue
        if _is_executable(directory / LANGUAGE_HOST):
            return directory
    return None


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
