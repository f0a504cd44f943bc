"""Puts the engine and the executables of its Python host into a folder of a checkout's venv.

They lie beside each other, since an engine looks for its Python host beside itself, and in the
venv, since each executable names that venv's interpreter: two checkouts share the built engine in
the cache and nothing else.
"""

import json
import os
import shlex
import shutil
from pathlib import Path

from runtime.toolchain import ENGINE_MARKER, LANGUAGE_HOST

EXECUTABLES = {
    LANGUAGE_HOST: ("toolchain.language_host",),
    "pulumi-resource-pulumi-python": ("toolchain.language_host.plugin", "pulumi.dynamic"),
    "pulumi-analyzer-policy-python": ("toolchain.language_host.plugin", "pulumi.policy"),
}


def install_engine(*, engine: Path, version: str, bin_dir: Path, python: Path) -> None:
    """Make the folder complete; a process that runs from an older file is not disturbed."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    place_executable(engine, bin_dir / "pulumi")
    for name, module in EXECUTABLES.items():
        _write(bin_dir / name, render_executable(python=python, module=module), mode=0o755)
    marker = json.dumps({"engine": str(engine), "version": version}) + "\n"
    _write(bin_dir / ENGINE_MARKER, marker, mode=0o644)


def render_executable(*, python: Path, module: tuple[str, ...]) -> str:
    """Return a script that becomes the interpreter, so that its parent stays the engine.

    -P keeps the engine's directory off sys.path until the module is found.
    """
    words = " ".join(shlex.quote(word) for word in (str(python), "-u", "-P", "-m", *module))
    return f'#!/bin/sh\nexec {words} "$@"\n'


def place_executable(built: Path, target: Path) -> None:
    """Link a built executable, or copy it where the cache is another file system.

    A symbolic link would not do: the engine follows its own and looks for its host there.
    """
    if target.exists() and target.samefile(built):
        return
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        os.link(built, partial)
    except OSError:
        shutil.copy2(built, partial)
    partial.replace(target)


def _write(target: Path, text: str, *, mode: int) -> None:
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    partial.write_text(text)
    partial.chmod(mode)
    partial.replace(target)
