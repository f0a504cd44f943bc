"""A run in a Kueue queue: one JobSet, whose fields that Kueue writes no later `up` touches.

The CRDs of Kueue and JobSet lie beside the project where there are any; their controllers are
played by the test, which writes what they would.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.kubernetes_kinds import KUEUE_VERSIONS
from runtime.states import RunState
from tests.cluster.sites import LAB, ClusterSite, make_cluster_site
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).resolve().parents[3] / "shared" / "reference" / "crds"
KINDS = ("kueue.x-k8s.io_localqueues", "kueue.x-k8s.io_workloads", "jobset.x-k8s.io_jobsets")
FILES = tuple(CRDS / f"{kind}.yaml" for kind in KINDS)
RUN = "run-queued"


@pytest.fixture
def queued(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterSite]:
    """Yield a site whose runs wait in a queue."""
    if not all(file.exists() for file in FILES):
        pytest.skip(f"no CRDs of Kueue and JobSet in {CRDS}")
    for file in FILES:
        testbed.kubectl("apply", "--server-side", "--filename", str(file))
    try:
        with make_cluster_site(tmp_path, testbed) as site:
            wait_for(lambda: any(site.api.serves(one, "Workload") for one in KUEUE_VERSIONS))
            wait_for(lambda: site.api.serves("jobset.x-k8s.io/v1alpha2", "JobSet"))
            testbed.apply(local_queue(site.namespace))
            site.pulumi("config", "set", "paddock:queue", "gpus", "-s", LAB)
            site.pulumi("up", "-s", LAB)
            yield site
    finally:
        for file in FILES:
            testbed.kubectl("delete", "--ignore-not-found", "--filename", str(file))


def local_queue(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"clusterQueue": "all"},
    }


def test_what_kueue_writes_into_a_run_stays_and_its_words_are_the_runs(
    queued: ClusterSite, testbed: Testbed
) -> None:
    site, target = queued, ("jobset", f"{RUN}-1", "--namespace", queued.namespace)
    site.new_run(RUN)
    site.pulumi("up", "-s", RUN)
    made = testbed.get(*target)

    written = '{"spec":{"suspend":true}}'
    testbed.kubectl("patch", *target, "--type=merge", "--field-manager=kueue", "-p", written)
    again = site.pulumi("up", "-s", RUN)
    after = testbed.get(*target)
    testbed.apply(workload(site.namespace, after["metadata"]["uid"]))
    refuse(testbed, site.namespace, "ExceedsMaxQuota", "2 GPUs are more than the queue ever has")
    waited = site.paddock("wait", RUN, expect=None)
    site.pulumi("destroy", "-s", RUN)

    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert "suspend" not in made["spec"]
    assert "unchanged" in again.text
    assert "replaced" not in again.text
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert after["spec"]["suspend"] is True
    assert waited.code == 1, waited.text
    record = site.cluster_record(RUN)
    assert record.state is RunState.FAILED
    assert "ExceedsMaxQuota: 2 GPUs are more than the queue ever has" in record.reason
    kinds = "jobsets,jobs,pods,podgroups,services,configmaps,secrets"
    selector = ("--selector", f"paddock.dev/run={RUN},!paddock.dev/record")
    left = testbed.get(kinds, "--namespace", site.namespace, *selector)["items"]
    assert [one["kind"] for one in left] == []


def workload(namespace: str, owner: str) -> dict[str, Any]:
    """Return the Workload that Kueue makes for the run's JobSet."""
    container = {"name": "main", "image": "any"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"jobset-{RUN}-1",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "name": f"{RUN}-1",
                    "uid": owner,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "queueName": "gpus",
            "podSets": [{"name": "trainer", "count": 1, "template": template}],
        },
    }


def refuse(testbed: Testbed, namespace: str, reason: str, message: str) -> None:
    """Write that a Workload gets no quota, as Kueue does."""
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-12-01T10:00:00Z",
    }
    target = (
        "workloads.kueue.x-k8s.io",
        f"jobset-{RUN}-1",
        "--namespace",
        namespace,
        "--subresource=status",
    )
    patch = json.dumps({"status": {"conditions": [condition]}})
    testbed.kubectl("patch", *target, "--type=merge", "-p", patch)
