"""A Pulumi project in a temporary directory, with its own backend and PULUMI_HOME."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.toolchain import engine_environment, find_engine

DATA = Path(__file__).parent.parent / "data" / "toolchain" / "project"
COMMAND_LIMIT_S = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A project of the tests and how its `pulumi` is called."""

    directory: Path
    environment: dict[str, str]

    @property
    def mark_file(self) -> Path:
        """Return the file in which a create in progress says its process's id."""
        return Path(self.environment["MARK_FILE"])

    def start(self, *arguments: str, **extra: str) -> "subprocess.Popen[str]":
        """Start a pulumi command in a session of its own; its output is one stream."""
        return subprocess.Popen(
            [find_engine().pulumi, *arguments, "--non-interactive"],
            cwd=self.directory,
            env={**self.environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, expect: int | None = 0, **extra: str) -> str:
        """Run a pulumi command to its end and return its output."""
        process = self.start(*arguments, **extra)
        output, _ = process.communicate(timeout=COMMAND_LIMIT_S)
        assert expect is None or process.returncode == expect, output
        return output


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose stack `dev` exists and is empty."""
    directory = tmp_path / "project"
    shutil.copytree(DATA, directory)
    backend = tmp_path / "backend"
    backend.mkdir()
    settings = {
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "only-for-this-test",
        "PULUMI_HOME": str(tmp_path / "pulumi-home"),
        "MARK_FILE": str(tmp_path / "mark"),
        "CREATE_SECONDS": "0",
    }
    project = Project(
        directory=directory, environment={**engine_environment(os.environ), **settings}
    )
    project.run("stack", "init", "dev")
    return project
