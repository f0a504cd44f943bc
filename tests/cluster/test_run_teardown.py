"""The end of a run on a cluster that is away, or whose node is lost."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.states import RunState, Teardown
from tests.cluster.cut_line import CutLine, cut_line
from tests.cluster.sites import NOWHERE, ClusterSite
from tests.engine.sites import COMMAND_LIMIT_S
from tests.testbed.cluster import Testbed
from tests.testbed.kwok import KEEP_RUNNING
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

OUTAGE_S = 5

Line = tuple[CutLine, dict[str, Any]]
"""A line, and variables by which commands go through it."""


@pytest.fixture
def line(site: ClusterSite, testbed: Testbed, tmp_path: Path) -> Iterator[Line]:
    """Yield a line to the cluster, and the environment of commands that go through it."""
    with cut_line(testbed.kubeconfig, tmp_path) as (made, kubeconfig):
        yield made, {"KUBECONFIG": str(kubeconfig)}


def test_destroy_rides_out_an_outage(site: ClusterSite, line: Line) -> None:
    run_id = "run-outage"
    cut, environment = line
    site.new_run(run_id)
    site.pulumi("up", "-s", run_id, **environment)

    cut.refuse()
    engine = site.start("pulumi", "destroy", "--yes", "-s", run_id, **environment)
    wait_for(lambda: cut.num_refused > 1 or engine.poll() is not None, timeout_s=COMMAND_LIMIT_S)
    with pytest.raises(AssertionError):  # it goes on as long as nobody answers
        wait_for(lambda: engine.poll() is not None, timeout_s=OUTAGE_S)
    assert site.owned(run_id) != {}
    cut.mend()
    out, err = engine.communicate(timeout=COMMAND_LIMIT_S)

    assert engine.returncode == 0, out + err
    assert site.owned(run_id) == {}
    assert site.cluster_record(run_id).teardown is Teardown.DONE


def test_a_cluster_that_stays_away_loses_nothing(site: ClusterSite, line: Line) -> None:
    run_id = "run-away"
    cut, environment = line
    site.new_run(run_id)
    site.pulumi("up", "-s", run_id, **environment)
    before = site.owned(run_id)
    note = site.home / "unreachable" / f"{run_id}.json"

    cut.cut()
    impatient = environment | {"PADDOCK_API_PATIENCE_S": "1"}
    away = site.pulumi("destroy", "-s", run_id, expect=None, **impatient)
    facts = json.loads(note.read_text())
    stayed = site.owned(run_id)
    cut.mend()
    site.pulumi("destroy", "-s", run_id, **environment)

    assert away.code != 0
    assert "teardown=unreachable" in away.text
    assert "Traceback" not in away.text
    assert facts["namespace"] == site.namespace
    assert stayed == before
    assert not note.exists()
    assert site.owned(run_id) == {}
    assert site.cluster_record(run_id).teardown is Teardown.DONE


def test_pods_of_a_lost_node_do_not_hold_up_a_destroy(site: ClusterSite, testbed: Testbed) -> None:
    run_id = "run-lost"
    site.new_run(run_id)
    site.pulumi("up", "-s", run_id)
    pods = ("pods", "--namespace", site.namespace, "--selector", f"paddock.dev/run={run_id}")
    keep = [f"{key}={value}" for key, value in KEEP_RUNNING.items()]
    wait_for(lambda: len(testbed.get(*pods)["items"]) == 4)
    testbed.kubectl("annotate", *pods, *keep)
    labels = NOWHERE["node_selector"]
    (node,) = testbed.add_kwok_nodes(1, labels=labels, is_tainted=False)
    try:
        wait_for(lambda: phases(testbed, pods) == {"Running"}, timeout_s=120)
        testbed.lose_node(node)
        wait_for(lambda: not is_ready(testbed, node), timeout_s=180)
        began = time.monotonic()
        site.pulumi("destroy", "-s", run_id)
        took_s = time.monotonic() - began
    finally:
        testbed.remove_kwok_nodes([node])

    assert site.owned(run_id) == {}
    assert took_s < 150
    record = site.cluster_record(run_id)
    assert record.state in {RunState.STOPPED, RunState.FAILED}
    assert record.teardown is Teardown.DONE


def phases(testbed: Testbed, pods: tuple[str, ...]) -> set[str]:
    return {one["status"].get("phase", "") for one in testbed.get(*pods)["items"]}


def is_ready(testbed: Testbed, node: str) -> bool:
    conditions = testbed.get("node", node)["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
