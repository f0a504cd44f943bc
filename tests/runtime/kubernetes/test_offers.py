"""What nodes offer: GPU types by canonical token, shapes, RDMA, taints, and what is left out."""

from typing import Any

import pytest

from runtime.cluster import Toleration
from runtime.kubernetes_nodes import gpu_type_of, node_fact, quantity, tolerates
from runtime.kubernetes_offers import NodeWishes, read_nodes

PRODUCT = "nvidia.com/gpu.product"
WISHES = NodeWishes(prices={})


def node(
    name: str = "n0",
    *,
    product: str = "NVIDIA-H200",
    gpus: int = 8,
    **rest: Any,  # noqa: ANN401 - labels, allocatable, taints
) -> dict[str, Any]:
    """Return a node object as the API gives it."""
    labels = rest.get("labels", {PRODUCT: product} if product else {})
    allocatable = {
        "cpu": "191450m",
        "memory": "2113537464Ki",
        "ephemeral-storage": "1099511627776",
        "hugepages-2Mi": "5128Mi",
        "nvidia.com/gpu": str(gpus),
        **rest.get("allocatable", {}),
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": rest.get("taints", [])},
        "status": {"allocatable": allocatable},
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        (8, 8),
        ("191450m", 191.45),
        ("2Ki", 2048),
        ("1.5Gi", 1.5 * 2**30),
        ("1e3", 1000),
        ("5k", 5000),
        ("many", 0),
        ("3Xi", 0),
        ("1e400", 0),
        ("1.2.3", 0),
    ],
)
def test_a_quantity_is_read_as_kubernetes_writes_it(text: object, number: float) -> None:
    assert quantity(text) == pytest.approx(number)


@pytest.mark.parametrize(
    ("key", "value", "gpu_type"),
    [
        (PRODUCT, "NVIDIA-H100-80GB-HBM3", "H100_80GB"),
        (PRODUCT, "NVIDIA-H100-PCIe", "H100_80GB"),
        (PRODUCT, "NVIDIA-H200", "H200_141GB"),
        (PRODUCT, "NVIDIA-H200-SXM5-141GB", "H200_141GB"),
        (PRODUCT, "NVIDIA-B200", "B200_180GB"),
        (PRODUCT, "NVIDIA-A100-SXM4-80GB", "A100_80GB"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB", None),
        (PRODUCT, "NVIDIA-GH200-480GB", None),
        (PRODUCT, "NVIDIA-GB200", None),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", None),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3-SHARED", None),
        (PRODUCT, "NVIDIA-L40S", None),
        ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb", "H200_141GB"),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", "H100_80GB"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", None),
        ("karpenter.k8s.aws/instance-gpu-name", "h200", "H200_141GB"),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", None),
        ("skypilot.co/accelerator", "h100", "H100_80GB"),
        ("example.com/gpu", "h100", None),
    ],
)
def test_a_gpu_type_is_told_by_a_token(key: str, value: str, gpu_type: str | None) -> None:
    found = gpu_type_of({key: value})

    assert found == (None if gpu_type is None else (gpu_type, key))


def test_memory_tells_two_gpus_of_one_name_apart() -> None:
    name = {"karpenter.k8s.aws/instance-gpu-name": "a100"}

    big = gpu_type_of({**name, "karpenter.k8s.aws/instance-gpu-memory": "81920"})

    assert big == ("A100_80GB", "karpenter.k8s.aws/instance-gpu-name")
    assert gpu_type_of({**name, "karpenter.k8s.aws/instance-gpu-memory": "40960"}) is None


def test_nodes_of_one_shape_are_one_offer() -> None:
    report = read_nodes([node(f"n{index}") for index in range(4)], WISHES)

    (offer,) = report.offers
    assert (offer.name, offer.num_nodes, offer.gpus_per_node) == ("H200_141GB", 4, 8)
    assert offer.node_selector == {PRODUCT: "NVIDIA-H200"}
    assert offer.cpu_per_node == pytest.approx(191.45)
    assert offer.memory_gib_per_node == pytest.approx(2015.6, abs=0.1)
    assert offer.ephemeral_gib_per_node == 1024
    assert offer.hugepages_2mi_per_node == 5128
    assert offer.price_usd_per_hour == 3.49
    assert report.remarks == ()


def test_the_settings_price_wins() -> None:
    (offer,) = read_nodes([node()], NodeWishes(prices={"H200_141GB": 1.25})).offers

    assert offer.price_usd_per_hour == 1.25


def test_of_several_shapes_the_smallest_is_asked_for_and_said() -> None:
    nodes = [node("n0"), node("n1", allocatable={"memory": "1Ti", "cpu": "96"})]

    report = read_nodes(nodes, WISHES)

    assert report.offers[0].memory_gib_per_node == 1024
    assert report.offers[0].cpu_per_node == 96
    assert any("1024 to 2015.6 GiB of memory" in one for one in report.remarks)


def test_a_small_node_does_not_make_large_ones_small() -> None:
    nodes = [*(node(f"n{index}") for index in range(4)), node("odd", gpus=1)]

    report = read_nodes(nodes, WISHES)

    assert (report.offers[0].num_nodes, report.offers[0].gpus_per_node) == (4, 8)
    assert any("nodes have 1, 8 GPUs: offered are 4 nodes of 8" in one for one in report.remarks)


def test_types_are_offered_apart_and_can_be_chosen() -> None:
    nodes = [node("n0"), node("n1", product="NVIDIA-H100-80GB-HBM3")]

    every = read_nodes(nodes, WISHES).offers
    some = read_nodes(nodes, NodeWishes(prices={}, gpu_types=("H100_80GB",))).offers

    assert [offer.name for offer in every] == ["H100_80GB", "H200_141GB"]
    assert [offer.name for offer in some] == ["H100_80GB"]


def test_two_spellings_of_one_type_are_selected_by_the_label_that_most_nodes_have() -> None:
    gke = "cloud.google.com/gke-accelerator"
    nodes = [
        node("n0", labels={PRODUCT: "NVIDIA-H200", gke: "nvidia-h200-141gb"}),
        node("n1", labels={PRODUCT: "NVIDIA-H200-SXM", gke: "nvidia-h200-141gb"}),
        node("n2", labels={PRODUCT: "NVIDIA-H200-NVL"}),
    ]

    report = read_nodes(nodes, WISHES)

    assert report.offers[0].node_selector == {gke: "nvidia-h200-141gb"}
    assert report.offers[0].num_nodes == 2
    assert any(f"1 nodes without {gke}=nvidia-h200-141gb" in one for one in report.remarks)


def test_gpus_of_no_known_type_are_listed_as_seen() -> None:
    nodes = [
        node("n0", product="NVIDIA-L40S"),
        node("n1", product="NVIDIA-L40S"),
        node("n2", product=""),
    ]

    report = read_nodes(nodes, WISHES)

    assert report.offers == ()
    assert (
        "2 nodes have GPUs of no known type: nvidia.com/gpu.product=NVIDIA-L40S" in report.remarks
    )
    assert any("nvidia.com/gpu without any of" in one for one in report.remarks)


def test_a_labelled_node_without_gpus_is_said() -> None:
    report = read_nodes([node(gpus=0)], WISHES)

    assert report.remarks == ("node n0 is labelled H200_141GB and has no nvidia.com/gpu",)


def test_a_node_that_is_being_deleted_is_no_offer() -> None:
    leaving = node()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-29T10:00:00Z"

    assert read_nodes([leaving], WISHES).offers == ()


def test_the_taint_of_gpu_nodes_is_tolerated_by_itself() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

    (offer,) = read_nodes([node(taints=[taint])], WISHES).offers

    assert offer.tolerations == (
        Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),
    )


def test_another_taint_leaves_the_node_out_unless_it_is_tolerated() -> None:
    taint = {"key": "dedicated", "value": "team-a", "effect": "NoSchedule"}
    wish = Toleration(key="dedicated", operator="Equal", value="team-a")

    barred = read_nodes([node(taints=[taint])], WISHES)
    let = read_nodes([node(taints=[taint])], NodeWishes(prices={}, tolerations=(wish,)))

    assert barred.offers == ()
    assert "node n0 is left out: taint dedicated is not tolerated" in barred.remarks[0]
    assert let.offers[0].num_nodes == 1


def test_a_node_that_is_down_or_cordoned_still_exists() -> None:
    taints = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]

    assert read_nodes([node(taints=taints)], WISHES).offers[0].num_nodes == 1


@pytest.mark.parametrize(
    ("resources", "name", "count"),
    [
        ({"rdma/ib": "1000"}, "rdma/ib", 1),
        ({"rdma/hca_shared_devices_a": "63"}, "rdma/hca_shared_devices_a", 1),
        ({"vpc.amazonaws.com/efa": "32"}, "vpc.amazonaws.com/efa", 32),
        ({"nvidia.com/mlnxnics": "8"}, "nvidia.com/mlnxnics", 8),
        ({"openshift.io/sriov_a": "4", "rdma/ib": "9"}, "rdma/ib", 1),
        ({"rdma/ib": "0"}, None, 0),
        ({"example.com/thing": "4"}, None, 0),
    ],
)
def test_rdma_resources_are_told_by_their_names(
    resources: dict[str, str], name: str | None, count: int
) -> None:
    (offer,) = read_nodes([node(allocatable=resources)], WISHES).offers

    assert (offer.rdma_resource, offer.rdma_per_node) == (name, count)


def test_rdma_that_only_some_nodes_have_is_none() -> None:
    report = read_nodes([node("n0", allocatable={"rdma/ib": "1"}), node("n1")], WISHES)

    assert report.offers[0].rdma_resource is None
    assert "H200_141GB: only some nodes have rdma/ib: no RDMA" in report.remarks


def test_the_rdma_resource_can_be_chosen() -> None:
    nodes = [node(allocatable={"rdma/a": "1", "vpc.amazonaws.com/efa": "16"})]

    chosen = read_nodes(nodes, NodeWishes(prices={}, rdma_resource="vpc.amazonaws.com/efa"))
    absent = read_nodes(nodes, NodeWishes(prices={}, rdma_resource="rdma/b"))

    assert chosen.offers[0].rdma_per_node == 16
    assert absent.offers[0].rdma_resource is None
    assert "paddock:rdmaResource rdma/b: no RDMA" in absent.remarks[0]


@pytest.mark.parametrize(
    ("toleration", "lets"),
    [
        (Toleration(), True),
        (Toleration(key="a"), True),
        (Toleration(key="b"), False),
        (Toleration(key="a", operator="Equal", value="1"), True),
        (Toleration(key="a", operator="Equal", value="2"), False),
        (Toleration(key="a", effect="NoExecute"), False),
        (Toleration(key="a", effect="NoSchedule"), True),
    ],
)
def test_tolerations_match_as_the_scheduler_matches_them(
    toleration: Toleration, lets: bool
) -> None:
    taint = {"key": "a", "value": "1", "effect": "NoSchedule"}

    assert tolerates([toleration], taint) is lets


def test_a_node_without_a_status_is_nothing() -> None:
    fact = node_fact({"metadata": {"name": "new"}})

    assert (fact.num_gpus, fact.cpu, dict(fact.rdma)) == (0, 0, {})


def test_remarks_about_a_thousand_nodes_are_few() -> None:
    report = read_nodes([node(f"n{index}", gpus=0) for index in range(1000)], WISHES)

    assert len(report.remarks) == 21
    assert report.remarks[-1] == "and 980 more like these"
