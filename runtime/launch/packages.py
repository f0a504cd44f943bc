"""Installs environment packages into a folder that the run's components import from.

A program of its own in one file, Python 3.10 and the standard library only, mounted from a
ConfigMap: `packages.py SPEC...` is an init container of the pods that import tasksets. It leaves
out of the folder what the image has already. The folder comes before the image's own packages, so
a second copy of verifiers there, of another version, would break prime-rl itself.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path("/paddock/packages")
NO_INSTALLER = 127  # as a shell says it


def install(specs: list[str], folder: Path) -> int:
    """Install the requirement specs as they are written; return the installer's exit code."""
    where = ("--no-cache", "--python", sys.executable, "--target", str(folder))
    argv = ["uv", "pip", "install", *where, "--", *specs]
    try:
        return subprocess.run(argv, check=False).returncode
    except FileNotFoundError:
        sys.stderr.write("the image has no uv, which installs environments: use one that has it\n")
        return NO_INSTALLER


def leave_out_known(folder: Path, known: dict[str, str]) -> list[str]:
    """Remove from the folder each package that is known; return a line on each other version."""
    lines = []
    for package in list(importlib.metadata.distributions(path=[str(folder)])):
        name = canonical(package.metadata["Name"])
        if name not in known:
            continue
        if package.version != known[name]:
            lines.append(f"{name}: the image's {known[name]} is used, not {package.version}")
        _remove(package, folder)
    return lines


def installed(packages: Iterable[importlib.metadata.Distribution]) -> dict[str, str]:
    """Return the version of each package by its canonical name."""
    return {
        canonical(package.metadata["Name"]): package.version
        for package in packages
        if package.metadata["Name"]
    }


def canonical(name: str) -> str:
    """Return a package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(specs: list[str]) -> int:
    """Install the packages and say what the image keeps; return the exit code."""
    known = installed(
        package
        for package in importlib.metadata.distributions()
        if Path(str(package.locate_file(""))).resolve() != FOLDER.resolve()
    )
    code = install(specs, FOLDER)
    if code != 0:
        sys.stderr.write(f"packages {' '.join(specs)} could not be installed: see above\n")
        return code
    for line in leave_out_known(FOLDER, known):
        sys.stdout.write(f"{line}\n")
    return 0


def _remove(package: importlib.metadata.Distribution, folder: Path) -> None:
    root = folder.resolve()
    folders = set()
    for file in package.files or ():
        path = Path(str(package.locate_file(file))).resolve()
        if root in path.parents:
            path.unlink(missing_ok=True)
            folders.update(parent for parent in path.parents if root in parent.parents)
    for parent in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        shutil.rmtree(parent / "__pycache__", ignore_errors=True)
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
