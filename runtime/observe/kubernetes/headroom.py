"""Headroom: the free GPUs of a cluster by node and by type, from its nodes and pods. Pure.

Free is what a node can give less what pods on it asked for that have not ended. A node that takes
no new pods (cordoned, not ready, tainted against runs) has none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime import naming
from runtime.cluster import Toleration
from runtime.kubernetes_api import KINDS, KubernetesApi
from runtime.kubernetes_nodes import (
    GPU_RESOURCE,
    gpu_type_of,
    is_gpu_taint,
    node_fact,
    quantity,
    tolerates,
)

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects

_ALL_PODS = replace(KINDS["Pod"], is_namespaced=False)
"""Pods of every namespace: all of them hold GPUs."""

_BARRING = {"NoSchedule", "NoExecute"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeHeadroom:
    """The GPUs of one node; `barrier` says why it takes no pod of a run, empty where it does."""

    node: str
    gpu_type: str
    num_gpus: int
    num_free: int
    barrier: str = ""


def read_headroom(
    api: KubernetesApi, *, tolerations: Iterable[Toleration] = (), ignored_run: str | None = None
) -> list[NodeHeadroom]:
    """Return the headroom of every node with GPUs; needs to list nodes and all pods.

    What the pods of an ignored run hold counts as free. Raises ForbiddenError naming what may not
    be read.
    """
    nodes = api.list("Node")
    labels = f"{naming.LABEL_RUN}!={ignored_run}" if ignored_run is not None else None
    live = "status.phase!=Succeeded,status.phase!=Failed"
    pods = api.list(_ALL_PODS, labels=labels, fields=live)
    others = [pod for pod in pods if not ignored_run or _run_of(pod) != ignored_run]
    return headroom(nodes, others, tolerations=tuple(tolerations))


def headroom(
    nodes: Iterable[Manifest], pods: Iterable[Manifest], *, tolerations: Iterable[Toleration] = ()
) -> list[NodeHeadroom]:
    """Return the headroom of the nodes with GPUs, by name."""
    used: Counter[str] = Counter()
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        phase = (pod.get("status") or {}).get("phase")
        if node and phase not in {"Succeeded", "Failed"}:
            used[node] += gpus_of(pod)
    allowed = tuple(tolerations)
    found = [_of_node(node, used, allowed) for node in nodes]
    return sorted((one for one in found if one.num_gpus), key=lambda one: one.node)


def free_by_type(rooms: Iterable[NodeHeadroom]) -> dict[str, int]:
    """Return the free GPUs of each type."""
    free: Counter[str] = Counter()
    for room in rooms:
        free[room.gpu_type] += room.num_free
    return dict(free)


def gpus_of(pod: Manifest) -> int:
    """Return the GPUs that a pod holds: its containers together, or its largest init container."""
    spec = pod.get("spec") or {}
    main = sum(_requested(one) for one in spec.get("containers") or ())
    init = max((_requested(one) for one in spec.get("initContainers") or ()), default=0)
    return max(main, init)


def _run_of(pod: Manifest) -> str:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return str(labels.get(naming.LABEL_RUN) or "")


def _requested(container: Manifest) -> int:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(quantity(asked.get(GPU_RESOURCE, 0)))


def _of_node(
    node: Manifest, used: Mapping[str, int], tolerations: tuple[Toleration, ...]
) -> NodeHeadroom:
    fact = node_fact(node)
    known = gpu_type_of(fact.labels)
    barrier = _barrier(node, tolerations)
    free = max(0, fact.num_gpus - used.get(fact.name, 0))
    return NodeHeadroom(
        node=fact.name,
        gpu_type=known[0] if known else "unknown",
        num_gpus=fact.num_gpus,
        num_free=0 if barrier else free,
        barrier=barrier,
    )


def _barrier(node: Manifest, tolerations: tuple[Toleration, ...]) -> str:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    if spec.get("unschedulable"):
        return "cordoned"
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "not ready"
    for taint in spec.get("taints") or ():
        if taint.get("effect") not in _BARRING or is_gpu_taint(taint):
            continue
        if not tolerates(tolerations, taint):
            return f"taint {taint.get('key')}"
    return ""
