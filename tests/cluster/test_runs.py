"""Whole runs in real pods, from `pulumi up` to nothing left."""

import time

import pytest

from runtime.states import RunState
from tests.cluster.run_files import demo, multi_node
from tests.cluster.runs import NODES_GPU, Runs
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

END_S = 30.0
"""Within this of the orchestrator's end every pod has ended."""


def test_the_demo_learns_in_real_pods_and_leaves_nothing(runs: Runs) -> None:
    run_id = "run-demo"
    runs.up(run_id, demo())  # its shell has ended when the run begins

    waited = runs.wait(run_id, timeout_s=900)

    assert waited.code == 0, waited.text + runs.words(run_id)
    assert f"{run_id} COMPLETED" in waited.out
    record = runs.record(run_id)
    states = [one.state for one in record.times]
    assert states[0] is RunState.QUEUED
    assert states[-2:] == [RunState.RUNNING, RunState.COMPLETED]
    rewards = runs.rewards(run_id)
    first, last = sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5
    assert len(rewards) == 100
    assert 0.25 < first < 0.6, rewards
    assert last > 0.8, rewards
    wait_for(lambda: runs.is_released(run_id), timeout_s=END_S)
    assert set(runs.phases(run_id)) == {"Succeeded"}
    assert max(ends(runs, run_id).values()) - ends(runs, run_id)["orchestrator"] < END_S
    for component in ("orchestrator", "trainer", "inference"):
        shown = runs.site.paddock("logs", run_id, "-c", component)
        assert shown.out.count("\n") > 3, component
    assert runs.site.paddock("logs", run_id, "--env", "reverse-text").out.count("\n") > 1

    runs.destroy(run_id)

    assert runs.record(run_id).state is RunState.COMPLETED
    assert "Orchestrator finished" in runs.site.paddock("logs", run_id).out, "logs outlive pods"


def ends(runs: Runs, run_id: str) -> dict[str, float]:
    """Return when each pod's component ended, by replicated job."""
    found = {}
    for pod in runs.pods(run_id):
        (status,) = pod["status"]["containerStatuses"]
        stamp = status["state"]["terminated"]["finishedAt"]
        group = pod["metadata"]["labels"]["paddock.dev/replicated-job"]
        found[group] = time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))
    return found


def test_a_run_of_several_nodes_completes_on_one_node_of_32_gpus(runs: Runs) -> None:
    run_id = "run-nodes"
    printed = runs.up(run_id, multi_node(), gpuType=NODES_GPU)
    assert "processesPerNode 1: a test setting" in printed

    waited = runs.wait(run_id, timeout_s=600)

    assert waited.code == 0, waited.text + runs.words(run_id)
    gpus = [
        int(pod["spec"]["containers"][0]["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
        for pod in runs.pods(run_id)
    ]
    assert sum(gpus) == 32
    assert len(runs.rewards(run_id)) == 2
    wait_for(lambda: runs.is_released(run_id), timeout_s=END_S)
    assert set(runs.phases(run_id)) == {"Succeeded"}
    runs.destroy(run_id)
