"""Where the scheduler puts a run's pods: the real scheduler, on nodes that kwok plays."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from infra.k8s.manifests import run_manifests
from infra.k8s.placed import PlacedRun
from runtime import pod_names
from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection
from tests.infra.k8s.placing import TAINT, everything, placed, profile
from tests.testbed import volumes
from tests.testbed.cluster import Testbed
from tests.testbed.kwok import KEEP_RUNNING
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

GANG = "scheduling.k8s.io/v1beta1"
POOL = "paddock.dev/test-pool"


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """A pool of nodes of one test, by a label that no other node has, and a namespace."""

    testbed: Testbed
    pool: str
    namespace: str
    names: list[str]

    def add(self, number: int) -> list[str]:
        """Add nodes of eight GPUs and return their names."""
        resources = {"rdma/ib": "8", "hugepages-2Mi": "5120Mi"}
        labels = {POOL: self.pool}
        added = self.testbed.add_kwok_nodes(number, labels=labels, resources=resources)
        self.names.extend(added)
        return added

    def cluster(self, **over: object) -> ClusterProfile:
        """Return the profile of these nodes."""
        offer = GpuOffer(
            name="H200_141GB",
            num_nodes=64,
            gpus_per_node=8,
            price_usd_per_hour=3.5,
            node_selector={POOL: self.pool},
            tolerations=(TAINT,),
            cpu_per_node=192.0,
            memory_gib_per_node=2048.0,
            ephemeral_gib_per_node=4096.0,
            rdma_resource="rdma/ib",
            rdma_per_node=8,
            hugepages_2mi_per_node=5120,
        )
        connection = KubernetesConnection(context="any", namespace=self.namespace)
        return profile(connection=connection, gpus=(offer,), **over)

    def up(self, run: PlacedRun) -> None:
        """Create a run's objects, its Secret too."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": run.metadata(pod_names.secret_name(run.plan.run_id, run.plan.attempt)),
            "stringData": {},
        }
        found = run_manifests(run)
        for job in found.jobs:
            job["spec"]["template"]["metadata"]["annotations"] |= KEEP_RUNNING
        self.testbed.apply(secret, *everything(found))

    def pods(self, run: PlacedRun) -> dict[str, str | None]:
        """Return the node of each pod of a run by its replicated job and index."""
        labels = f"paddock.dev/run={run.plan.run_id}"
        found = self.testbed.get("pods", "--namespace", self.namespace, "--selector", labels)
        return {_key(item): item["spec"].get("nodeName") for item in found["items"]}

    def placed(self, run: PlacedRun, num_pods: int) -> dict[str, str]:
        """Wait until so many pods have a node; return the node of each that has one."""

        def there() -> dict[str, str] | None:
            nodes = {key: node for key, node in self.pods(run).items() if node is not None}
            return nodes if len(nodes) >= num_pods else None

        found = wait_for(there, timeout_s=120)
        assert found is not None
        return found


def _key(pod: dict[str, Any]) -> str:
    labels = pod["metadata"]["labels"]
    index = labels["batch.kubernetes.io/job-completion-index"]
    return f"{labels['paddock.dev/replicated-job']}-{labels['paddock.dev/job-index']}-{index}"


def gpu_nodes(found: dict[str, str]) -> list[str]:
    """Return the nodes of the GPU pods."""
    roles = ("trainer-", "inference-")
    return [node for key, node in found.items() if key.startswith(roles)]


@pytest.fixture
def nodes(testbed: Testbed) -> Iterator[Nodes]:
    namespace = testbed.make_namespace("placement")
    for claim in ("runs", "models"):
        testbed.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": namespace},
                "spec": {
                    "storageClassName": volumes.SHARED,
                    "volumeName": testbed.add_volume(),
                    "accessModes": ["ReadWriteMany"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        )
    found = Nodes(testbed=testbed, pool=uuid.uuid4().hex[:8], namespace=namespace, names=[])
    yield found
    # Jobs first: a pod that is tracked by a Job stays until the Job has counted it or is gone.
    testbed.kubectl("delete", "jobs", "--all", "--wait=false", "--namespace", namespace)
    testbed.delete_namespace(namespace)
    testbed.remove_kwok_nodes(found.names)


@pytest.mark.parametrize("gang", [None, GANG])
def test_the_gpu_pods_of_a_single_node_run_share_a_node(nodes: Nodes, gang: str | None) -> None:
    nodes.add(3)
    run = placed("several engines", profile=nodes.cluster(offer={"gang_api": gang}))

    nodes.up(run)

    found = nodes.placed(run, run.plan.num_pods)
    assert len(gpu_nodes(found)) == 2
    assert len(set(gpu_nodes(found))) == 1
    assert set(gpu_nodes(found)) <= set(nodes.names)


@pytest.mark.parametrize("gang", [None, GANG])
def test_every_pod_of_a_single_node_run_follows_where_the_volume_is_of_one_node(
    nodes: Nodes, gang: str | None
) -> None:
    nodes.add(3)
    cluster = nodes.cluster(offer={"gang_api": gang}, shared_storage=False)
    run = placed("several engines", profile=cluster)

    nodes.up(run)

    assert len(set(nodes.placed(run, run.plan.num_pods).values())) == 1


@pytest.mark.parametrize("gang", [None, GANG])
def test_a_run_of_four_nodes_is_spread_over_four_nodes(nodes: Nodes, gang: str | None) -> None:
    added = nodes.add(4)
    run = placed("multi_node", profile=nodes.cluster(offer={"gang_api": gang}))

    nodes.up(run)

    found = nodes.placed(run, run.plan.num_pods)
    assert sorted(gpu_nodes(found)) == sorted(added)


def test_a_gang_waits_as_a_whole_until_there_is_room_for_all_of_it(nodes: Nodes) -> None:
    nodes.add(3)
    run = placed("multi_node", profile=nodes.cluster(offer={"gang_api": GANG}))
    nodes.up(run)

    def is_refused() -> bool:
        group = nodes.testbed.get("podgroup", run.workload, "--namespace", nodes.namespace)
        conditions = group.get("status", {}).get("conditions", [])
        return any(item["reason"] == "Unschedulable" for item in conditions)

    wait_for(is_refused, timeout_s=120)
    assert set(nodes.pods(run).values()) == {None}

    nodes.add(1)

    found = nodes.placed(run, run.plan.num_pods)
    assert sorted(gpu_nodes(found)) == sorted(nodes.names)


def test_two_runs_in_one_namespace_do_not_select_each_other(nodes: Nodes) -> None:
    nodes.add(2)
    cluster = nodes.cluster()
    first = placed("several engines", profile=cluster, run_id="run-1")
    second = placed("several engines", profile=cluster, run_id="run-2")

    found = []
    for run in (first, second):  # one by one: together each might get a part of both nodes
        nodes.up(run)
        found.append(set(gpu_nodes(nodes.placed(run, run.plan.num_pods))))

    assert [len(each) for each in found] == [1, 1]
    assert found[0] != found[1], "eight GPUs each: a node has room for one of them"
