"""On-Demand Capacity: which GPU types can be had now on the clusters that are served."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from runtime.cluster import (
    ClusterProfile,
    GpuOffer,
    KubernetesConnection,
    KubernetesOffer,
    NodeClass,
)
from runtime.control.cluster_catalog import ClusterCatalog
from runtime.control.rooms import ClusterRoom, NodeRoom
from runtime.control.values import User

H100, H200 = "H100_80GB", "H200_141GB"
ADA = User(user_id="ada", name="ada", email="ada@example.org", is_admin=False, slug="ada")
RESERVED = KubernetesOffer(image_repository="prime-rl", run_claim="runs")
ON_DEMAND = RESERVED.model_copy(
    update={"node_class": NodeClass(group="karpenter.k8s.aws", kind="EC2NodeClass", name="gpu")}
)


def room(
    *nodes: NodeRoom, queues: bool = False, kubernetes: KubernetesOffer = RESERVED
) -> ClusterRoom:
    """Return a room of a cluster that offers one node of either type."""
    offers = tuple(
        GpuOffer(name=name, num_nodes=1, gpus_per_node=8, price_usd_per_hour=2.0)
        for name in (H100, H200)
    )
    profile = ClusterProfile(
        name="lab",
        gpus=offers,
        connection=KubernetesConnection(context="lab", namespace="lab"),
        runs_path="/runs",
        kubernetes=kubernetes,
    )
    return ClusterRoom(profile=profile, nodes=nodes, queues=queues)


def node(gpu_type: str, num_free: int, **held: int) -> NodeRoom:
    return NodeRoom(name="n0", gpu_type=gpu_type, num_gpus=8, num_free=num_free, held=held)


@pytest.mark.parametrize(
    ("found", "available"),
    [
        pytest.param(room(node(H100, 1), node(H200, 0)), {H100}, id="nodes"),
        pytest.param(room(node(H100, 0)), {H200}, id="from zero"),
        pytest.param(room(queues=True), {H100, H200}, id="kueue"),
        pytest.param(room(kubernetes=ON_DEMAND), {H100, H200}, id="karpenter"),
        pytest.param(room(node(H100, 0, old=8), kubernetes=ON_DEMAND), {H200}, id="all made"),
        pytest.param(replace(room(queues=True), trouble="does not answer"), set(), id="away"),
    ],
)
def test_what_can_be_had_now_is_available(found: ClusterRoom, available: set[str]) -> None:
    clusters = SimpleNamespace(profiles=lambda: {"lab": found.profile})
    catalog = ClusterCatalog(clusters=clusters, rooms=lambda: [found])  # type: ignore[arg-type]  # as much as is asked

    gpus = catalog.gpus(ADA, None)

    assert {one.gpu_type for one in gpus} == {H100, H200}
    assert {one.gpu_type for one in gpus if one.is_available} == available
