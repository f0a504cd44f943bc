"""Live runs with real pods: side by side, changed, stopped, and left by a killed engine."""

import os
import signal
from typing import Any

import pytest

from runtime.states import RunState
from tests.cluster.run_files import endless_demo
from tests.cluster.runs import Runs
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.cluster

ONE, TWO = "run-one", "run-two"


def test_two_live_runs_do_not_see_each_other_and_end_apart(runs: Runs) -> None:
    for run_id in (ONE, TWO):
        runs.up(run_id, endless_demo())
    for run_id in (ONE, TWO):
        runs.until_step(run_id, 1, timeout_s=600)

    for run_id in (ONE, TWO):
        assert endpoints(runs, run_id) == set(runs.uids(run_id))
        shown = runs.site.paddock("components", run_id)
        assert shown.out.count(f"{run_id}-1-") == 4
        assert (ONE if run_id == TWO else TWO) not in shown.out
        assert "Step" in runs.site.paddock("logs", run_id, "--tail", "20").out
    a_changed_rate_is_refused(runs, ONE)
    a_deleted_pod_ends_its_run_alone(runs, TWO, survivor=ONE)
    a_stopped_run_has_no_pods(runs, ONE)
    for run_id in (ONE, TWO):
        runs.destroy(run_id)


def endpoints(runs: Runs, run_id: str) -> set[str]:
    """Return the names of the pods that the run's Service stands for."""
    selector = ("--selector", f"kubernetes.io/service-name={run_id}-1")
    found = runs.testbed.get("endpointslices", "--namespace", runs.namespace, *selector)
    ends: list[dict[str, Any]] = [end for one in found["items"] for end in one["endpoints"]]
    return {end["targetRef"]["name"] for end in ends}


def a_changed_rate_is_refused(runs: Runs, run_id: str) -> None:
    before = runs.uids(run_id)
    runs.write(run_id, endless_demo(lr="7.25e-4"))
    for command in ("preview", "up"):
        result = runs.site.pulumi(command, "-s", run_id, expect=None)
        assert result.code != 0
        assert "its config was changed: trainer.optim.lr. Nothing was touched" in result.text
    runs.write(run_id, endless_demo())
    runs.site.pulumi("up", "-s", run_id)

    assert runs.uids(run_id) == before
    assert set(runs.phases(run_id)) == {"Running"}
    assert runs.settle(run_id).state is RunState.RUNNING


def a_deleted_pod_ends_its_run_alone(runs: Runs, run_id: str, *, survivor: str) -> None:
    name = runs.pod(run_id, "inference")
    with runs.site.start("paddock", "wait", run_id) as waiting:
        said = waiting.stderr
        assert said is not None
        # one that looks only later sees no pod, and a Job that failed
        with killed_after(waiting):
            wait_for(lambda: "RUNNING" in said.readline())
        runs.api.delete("Pod", name)
        out, err = waiting.communicate(timeout=300)

    assert waiting.returncode == 1, out + err
    reason = runs.record(run_id).reason
    assert reason == f"inference-0 (pod {name} on n0) was deleted"
    wait_for(lambda: runs.is_released(run_id), timeout_s=120)
    assert runs.settle(survivor).state is RunState.RUNNING
    assert set(runs.phases(survivor)) == {"Running"}


def a_stopped_run_has_no_pods(runs: Runs, run_id: str) -> None:
    done = len(runs.rewards(run_id))
    stopped = runs.site.paddock("stop", run_id)

    assert f"{run_id} is STOPPED" in stopped.out
    assert runs.pods(run_id) == []
    assert runs.record(run_id).state is RunState.STOPPED
    assert len(runs.rewards(run_id)) >= done > 0


def test_destroy_ends_the_pods_of_an_up_that_was_killed(runs: Runs) -> None:
    run_id = "run-cut"
    runs.new(run_id, endless_demo())
    command = ("pulumi", "up", "-s", run_id, "--yes", "--skip-preview")
    with runs.site.start(*command) as engine:
        wait_for(lambda: bool(runs.pods(run_id)), timeout_s=120)
        os.kill(engine.pid, signal.SIGKILL)
        engine.communicate(timeout=60)

    runs.site.paddock("destroy", run_id)

    assert runs.left(run_id) == []
    assert runs.record(run_id).state is RunState.STOPPED
    assert runs.site.export(run_id) == []
