"""A run in pods that a person made in the server's own state backend: stopped through the API."""

import pytest

from runtime.states import RunState
from tests.cluster.planes import TEARDOWN_S, open_plane
from tests.cluster.run_files import endless_demo
from tests.cluster.runs import START_S
from tests.runtime.control.operating.served import read_run
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster


def test_a_run_by_hand_in_pods_is_stopped_and_torn_down(
    testbed: Testbed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with open_plane(testbed, tmp_path_factory.mktemp("by-hand")) as plane:
        lab, prime = plane.lab, plane.prime
        lab.up("run-hand", endless_demo())

        def state() -> str:
            listed = prime("train", "list", "-o", "json").out
            return read_run(prime, "run-hand")["status"] if "run-hand" in listed else ""

        wait_for(lambda: state() == RunState.RUNNING, timeout_s=START_S)
        found = read_run(prime, "run-hand")
        said = prime("train", "stop", "run-hand", "--force")
        assert said.code == 0, said.out + said.err
        plane.until("run-hand", RunState.STOPPED, timeout_s=TEARDOWN_S)
        pods_at_stop = lab.pods("run-hand")
        plane.until_torn_down("run-hand")

        assert found["name"] == "reverse-text-hosted"  # of its ConfigMap
        assert pods_at_stop == []
        assert lab.left("run-hand") == []
        assert lab.site.export("run-hand") == []
        assert lab.record("run-hand").state is RunState.STOPPED
