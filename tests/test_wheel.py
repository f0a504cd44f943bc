"""The wheel: built from the tree, unpacked alone, its three packages imported from it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("infra", "runtime", "policies")
BUILD_LIMIT_S = 120

IMPORT_ALL = """
import importlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert pathlib.Path(module.__file__).is_relative_to(sys.argv[1]), module.__file__
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as an installer would, and return its file."""
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def run(*arguments: str, cwd: Path) -> None:
    """Run the interpreter of the tests; what it printed is the message of a failure."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    missing = expected - held

    assert not missing, f"not in the wheel: {sorted(missing)}"
    assert "policies/PulumiPolicy.yaml" in held


def test_the_packages_are_imported_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    modules = [*PACKAGES, "infra.program", "policies.rules", "runtime.cli"]

    run("-I", "-c", IMPORT_ALL, str(site), *modules, cwd=tmp_path)
