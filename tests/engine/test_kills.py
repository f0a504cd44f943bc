"""kill -9 of a component, a wrapper or the supervisor of a run that the engine made."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from runtime.local_state import LocalRun
from runtime.observe.local import observe
from runtime.states import RunState
from tests.engine.sites import Site

pytestmark = pytest.mark.engine


def component(_: Site, run: LocalRun) -> int:
    found = observe(run).component("inference-0")
    assert found is not None
    assert found.process is not None
    return found.process.pid


def wrapper(site: Site, run: LocalRun) -> int:
    return site.pids(run)["env-train-reverse-text"]


def supervisor(site: Site, run: LocalRun) -> int:
    return site.supervisor(run)


@pytest.mark.parametrize(
    ("victim", "reason"),
    [
        (component, "inference-0 was killed by SIGKILL"),
        (wrapper, "env-train-reverse-text ended with its wrapper, which was killed by SIGKILL"),
        (supervisor, "the run's supervisor died"),
    ],
)
def test_a_kill_fails_the_run_and_wait_says_why(
    site: Site, victim: Callable[[Site, LocalRun], int], reason: str
) -> None:
    run_id = f"kill-{victim.__name__}"
    run = site.up(run_id)
    site.until(run_id, RunState.RUNNING)

    os.kill(victim(site, run), signal.SIGKILL)
    killed = time.monotonic()
    result = site.paddock("wait", run_id, expect=None)
    elapsed_s = time.monotonic() - killed

    assert result.code == 1
    assert f"{run_id} FAILED: {reason}" in result.out
    assert elapsed_s < 10
    if victim is not supervisor:
        assert "this is a stand-in" in result.out
    site.paddock("destroy", run_id)
    assert site.record(run_id).state is RunState.FAILED


def test_a_failing_component_is_named_with_exit_code_and_last_lines(site: Site) -> None:
    site.up("failing", "failing")

    result = site.paddock("wait", "failing", "--destroy", expect=None)

    assert result.code == 1
    assert "failing FAILED: orchestrator exited with code 3" in result.out
    assert "ERROR the reward is not a number" in result.out
    assert [one for one in site.export("failing")] == []
