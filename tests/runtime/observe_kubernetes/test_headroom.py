"""Free GPUs are what nodes can give less what unfinished pods asked for."""

from typing import Any

from runtime.cluster import Toleration
from runtime.observe.kubernetes.headroom import free_by_type, gpus_of, headroom

Json = dict[str, Any]


def node(name: str, gpus: int = 8, *, ready: str = "True", spec: Json | None = None) -> Json:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}},
        "spec": spec or {},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(node_name: str | None, gpus: int, phase: str = "Running", init: int = 0) -> Json:
    def container(count: int) -> Json:
        return {"resources": {"requests": {"nvidia.com/gpu": str(count)}}}

    return {
        "spec": {
            "nodeName": node_name,
            "containers": [container(gpus)],
            "initContainers": [container(init)] if init else [],
        },
        "status": {"phase": phase},
    }


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
GPU_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


def test_pods_hold_gpus_until_they_end():
    pods = [
        pod("a", 4),
        pod("a", 2, "Pending"),
        pod("a", 8, "Succeeded"),
        pod("b", 8, "Failed"),
        pod(None, 8, "Pending"),
    ]

    rooms = headroom([node("b"), node("a"), node("cpu", 0)], pods)

    assert [(room.node, room.num_free) for room in rooms] == [("a", 2), ("b", 8)]
    assert free_by_type(rooms) == {"H200_141GB": 10}


def test_a_node_that_takes_no_pods_has_nothing_free():
    nodes = [
        node("cordoned", spec={"unschedulable": True}),
        node("lost", ready="Unknown"),
        node("theirs", spec={"taints": [TAINT]}),
        node("gpus", spec={"taints": [GPU_TAINT]}),
    ]

    rooms = {room.node: room for room in headroom(nodes, [])}

    assert rooms["cordoned"].barrier == "cordoned"
    assert rooms["lost"].barrier == "not ready"
    assert rooms["theirs"].barrier == "taint team"
    assert rooms["gpus"].num_free == 8
    assert free_by_type(rooms.values()) == {"H200_141GB": 8}


def test_a_tolerated_taint_is_no_barrier():
    allowed = [Toleration(key="team", operator="Equal", value="a")]

    rooms = headroom([node("theirs", spec={"taints": [TAINT]})], [], tolerations=allowed)

    assert rooms[0].num_free == 8


def test_an_init_container_counts_where_it_asks_for_more():
    assert gpus_of(pod("a", 2, init=4)) == 4
    assert gpus_of({"spec": {"containers": [{}]}}) == 0
