"""The API server ends while a run lives: pods go on, and who observes or destroys loses nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runtime.states import RunState, Teardown
from tests.cluster.run_files import endless_demo, small_demo
from tests.cluster.runs import Runs
from tests.testbed import lifecycle
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.cluster

SHORT_S = 20.0
LONG_S = 300.0


@contextmanager
def outage(runs: Runs) -> Iterator[None]:
    """Leave the cluster without its API server within the block."""
    with lifecycle.only_caller():
        runs.testbed.stop_api_server()
        try:
            yield
        finally:
            runs.testbed.start_api_server()


def test_a_run_that_ends_while_the_api_is_away_is_seen_to_have_completed(runs: Runs) -> None:
    run_id = "run-blind"
    runs.up(run_id, small_demo(max_steps=16))
    with runs.site.start("paddock", "wait", run_id) as waiting:
        wait_for(lambda: len(runs.rewards(run_id)) >= 4, timeout_s=300)
        with outage(runs):
            began = time.monotonic()
            wait_for(lambda: len(runs.rewards(run_id)) == 16, timeout_s=180)
            wait_for(lambda: time.monotonic() - began > SHORT_S)
            assert waiting.poll() is None
        out, err = waiting.communicate(timeout=180)

    assert waiting.returncode == 0, out + err + runs.words(run_id)
    assert "cannot be reached" in err
    assert "the Kubernetes API answers again" in err
    assert runs.record(run_id).state is RunState.COMPLETED
    wait_for(lambda: runs.is_released(run_id), timeout_s=90)
    runs.destroy(run_id)


@pytest.mark.long
def test_five_minutes_without_the_api_lose_nothing(runs: Runs) -> None:
    run_id, other = "run-long", "run-left"
    runs.up(run_id, endless_demo())
    runs.up(other, endless_demo())
    runs.until_step(run_id, 1)
    runs.until_step(other, 1)
    before = runs.uids(run_id)
    with runs.site.start("paddock", "wait", run_id) as waiting:
        said = waiting.stderr
        assert said is not None
        with killed_after(waiting):  # one that has not found its run yet is right to give up
            wait_for(lambda: "RUNNING" in said.readline(), timeout_s=120)
        with outage(runs):
            began = time.monotonic()
            away = runs.site.pulumi("destroy", "-s", other, expect=None, PADDOCK_API_PATIENCE_S="5")
            wait_for(lambda: time.monotonic() - began > LONG_S, timeout_s=LONG_S + 60)
            done = len(runs.rewards(run_id))
        assert waiting.poll() is None, waiting.communicate()
        wait_for(lambda: len(runs.rewards(run_id)) > done, timeout_s=120)
        assert runs.uids(run_id) == before
        assert runs.settle(run_id).state is RunState.RUNNING
        runs.kill_component(run_id, "trainer")
        out, err = waiting.communicate(timeout=180)

    assert away.code != 0
    assert "teardown=unreachable" in away.text
    assert waiting.returncode == 1, out + err
    assert "was killed by SIGKILL" in runs.record(run_id).reason
    runs.destroy(other)
    assert runs.record(other).teardown is Teardown.DONE
    runs.destroy(run_id)
