"""What is left when an engine is killed or interrupted in the middle of an update."""

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from tests.toolchain.conftest import Project

pytestmark = pytest.mark.engine

START_LIMIT_S = 60.0
END_LIMIT_S = 10.0


def _wait_for(condition: Callable[[], bool], *, limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(0.05)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _command_lines(processes: list[psutil.Process]) -> str:
    return "\n".join(" ".join(process.cmdline()) for process in processes)


def test_a_killed_engine_leaves_no_process(project: Project) -> None:
    engine = project.start("up", "--yes", "--policy-pack", "policies", CREATE_SECONDS="600")
    _wait_for(project.mark_file.exists, limit_s=START_LIMIT_S, what="a create in progress")
    children = psutil.Process(engine.pid).children(recursive=True)
    started = _command_lines(children)

    os.kill(engine.pid, signal.SIGKILL)
    engine.communicate(timeout=END_LIMIT_S)

    assert "-m toolchain.language_host 127.0.0.1" in started
    assert "pulumi.dynamic" in started
    assert "pulumi.policy" in started
    _wait_for(
        lambda: not any(_is_alive(child) for child in children),
        limit_s=END_LIMIT_S,
        what="every process of the engine gone",
    )


def test_an_interrupted_update_ends_in_order(project: Project) -> None:
    engine = project.start("up", "--yes", "--skip-preview", CREATE_SECONDS="3")
    _wait_for(project.mark_file.exists, limit_s=START_LIMIT_S, what="a create in progress")
    children = psutil.Process(engine.pid).children(recursive=True)
    host = next(child for child in children if "toolchain.language_host" in child.cmdline())

    host.send_signal(signal.SIGINT)
    engine.send_signal(signal.SIGINT)
    output, _ = engine.communicate(timeout=START_LIMIT_S)

    assert engine.returncode != 0
    assert "exited prematurely" not in output
    assert "thing" in project.run("stack", "--show-urns")
    _wait_for(
        lambda: not any(_is_alive(child) for child in children),
        limit_s=END_LIMIT_S,
        what="every process of the engine gone",
    )
    project.run("destroy", "--yes")  # no lock and no pending operation is left
