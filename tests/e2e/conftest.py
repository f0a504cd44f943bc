"""Fixtures of the whole-run tests: a private project with its own home and backend, one cluster.

The cache is the user's own, so that the tiny model is made once a machine.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime import homes, models
from runtime.commands.models import make_tiny_model
from runtime.control import stacks
from runtime.control.dispatch import new_stack
from runtime.control.private_project import make_private_project
from runtime.control.stacks import Project
from runtime.local_state import LocalRun
from runtime.locate import locate_run

CHECKOUT = Path(__file__).resolve().parents[2]
PADDOCK = Path(sys.executable).parent / "paddock"
CLUSTER = "local"


@dataclass(frozen=True, kw_only=True, slots=True)
class Desk:
    """What a person sits at: a project directory, and a shell in it."""

    project: Project

    def paddock(self, *args: str, timeout_s: float = 400.0) -> subprocess.CompletedProcess[str]:
        """Run the CLI as typed."""
        return self._run(str(PADDOCK), *args, timeout_s=timeout_s)

    def pulumi(self, *args: str, timeout_s: float = 200.0) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` as typed."""
        return self._run("pulumi", *args, timeout_s=timeout_s)

    def write(self, name: str, text: str) -> str:
        """Write a file into the project directory and return its name."""
        (self.project.path / name).write_text(text)
        return name

    def locate(self, run_id: str) -> LocalRun:
        """Return where a run is."""
        run = locate_run(self.project, run_id)
        assert isinstance(run, LocalRun), "its cluster is of this machine"
        return run

    def _run(self, *argv: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.project.path,
            env=dict(self.project.environment),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Give a desk with a cluster `local` of four CPU slots; all of it goes at the end."""
    folder = tmp_path_factory.mktemp("desk")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    environ["PADDOCK_HOME"] = str(folder / "home")
    previous = os.environ.get("PADDOCK_HOME")
    os.environ["PADDOCK_HOME"] = environ["PADDOCK_HOME"]
    try:
        models.add_model(models.TINY_MODEL, make_tiny_model(), str(homes.cache_path()))
        project = make_private_project(CHECKOUT, folder / "project", environ=environ)
        new_stack(project, CLUSTER, {"kind": "cluster", "target": "local", "slots": 4})
        stacks.up(project, CLUSTER, print)
        yield Desk(project=project)
        runs = [stack for stack in stacks.list_stacks(project) if stack != CLUSTER]
        for stack in (*runs, CLUSTER):
            stacks.destroy(project, stack, print)
            stacks.remove_stack(project, stack)
    finally:
        if previous is None:
            os.environ.pop("PADDOCK_HOME")
        else:
            os.environ["PADDOCK_HOME"] = previous
