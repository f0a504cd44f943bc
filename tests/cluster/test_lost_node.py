"""A node under a run falls silent, or is removed: the run fails and names it."""

import pytest

from runtime.states import RunState
from tests.cluster.run_files import small_demo
from tests.cluster.runs import POOL, POOL_GPU, Runs
from tests.testbed.kwok import KEEP_RUNNING
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("how", ["silent", "removed"])
def test_a_lost_node_fails_the_run_and_is_named(runs: Runs, how: str) -> None:
    run_id = f"run-{how}"
    runs.up(run_id, small_demo(max_steps=5), gpuType=POOL_GPU)
    wait_for(lambda: len(runs.pods(run_id)) == 4)
    selector = ("--selector", f"paddock.dev/run={run_id}", "--namespace", runs.namespace)
    keep = [f"{key}={value}" for key, value in KEEP_RUNNING.items()]
    runs.testbed.kubectl("annotate", "pods", *selector, *keep)
    (node,) = runs.testbed.add_kwok_nodes(1, labels={POOL: "true"})
    try:
        wait_for(lambda: running_on(runs, run_id, node) >= 2, timeout_s=120)
        if how == "silent":
            runs.testbed.lose_node(node)
        else:
            runs.testbed.remove_kwok_nodes([node])

        waited = runs.wait(run_id, timeout_s=300)
    finally:
        runs.testbed.remove_kwok_nodes([node])

    assert waited.code == 1, waited.text
    record = runs.record(run_id)
    assert record.state is RunState.FAILED
    assert f" on {node}) was lost" in record.reason
    runs.destroy(run_id)


def running_on(runs: Runs, run_id: str, node: str) -> int:
    """Return how many pods of a run say that they run on a node."""
    pods = [one for one in runs.pods(run_id) if one["spec"].get("nodeName") == node]
    return sum(one["status"].get("phase") == "Running" for one in pods)
