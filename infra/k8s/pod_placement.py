"""Where a run's pods may run: node selectors, tolerations, affinity. Pure.

On a reserved cluster a run claims nodes by the labels of its GPU type (and by the exclusive label
where the cluster has one); on a Karpenter cluster its own node pool is tainted with its id.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from runtime import naming, pod_names

ONE_NODE = "kubernetes.io/hostname"

ANNOTATIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""A run does not survive the loss of a pod, so no autoscaler may move one to save a node."""


def node_taint(run_id: str) -> dict[str, str]:
    """Return the taint of the nodes that a run owns."""
    return {"key": naming.LABEL_RUN, "value": run_id, "effect": "NoSchedule"}


def node_selector(group: JobGroup, placed: PlacedRun) -> dict[str, str]:
    """Return the labels of the nodes that a group's pods may run on."""
    offer = placed.offer
    if not group.has_gpus and not placed.follows_gpus:
        return {}
    if placed.owns_nodes:
        # Labels of the GPU type appear on a new node too late for Karpenter to plan with them.
        return {naming.LABEL_RUN: placed.plan.run_id}
    selector = dict(offer.node_selector) if offer is not None else {}
    exclusive = _exclusive_label(placed)
    if exclusive is not None:
        selector[exclusive] = placed.plan.run_id
    return selector


def tolerations(placed: PlacedRun) -> list[Manifest]:
    """Return the tolerations of every pod of the run.

    Pods without a GPU have those of the GPU nodes too: a reserved cluster may have no other nodes.
    """
    offer = placed.offer
    found = [item.manifest() for item in placed.kubernetes.tolerations]
    if offer is not None:
        found += [item.manifest() for item in offer.tolerations]
    own = []
    if placed.owns_nodes:
        own.append(naming.LABEL_RUN)
    exclusive = _exclusive_label(placed)
    if exclusive is not None:
        own.append(exclusive)
    found += [{"key": key, "operator": "Equal", "value": placed.plan.run_id} for key in own]
    return [item for index, item in enumerate(found) if item not in found[:index]]


def affinity(group: JobGroup, groups: tuple[JobGroup, ...], placed: PlacedRun) -> Manifest:
    """Return the affinity of a group's pods; empty where there is none.

    The GPU pods of a single-node run must share a node: the term selects them all, the pod itself
    too, which is what lets the first of them be placed. Pods without a GPU are drawn after them
    where they must share a volume, and kept off GPU nodes where there are others.
    """
    shares_node = not placed.plan.pool.exclusive_nodes and placed.plan.num_gpus > 0
    if shares_node and (group.has_gpus or placed.follows_gpus):
        names = [other.name for other in groups if other.has_gpus]
        return {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_near(names, placed)]
            }
        }
    offer = placed.offer
    if group.has_gpus or offer is None or not offer.node_selector:
        return {}
    elsewhere = [
        {"key": key, "operator": "NotIn", "values": [value]}
        for key, value in sorted(offer.node_selector.items())
    ]
    preferred = [{"weight": 1, "preference": {"matchExpressions": elsewhere}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _near(names: list[str], placed: PlacedRun) -> Manifest:
    plan = placed.plan
    return {
        "topologyKey": ONE_NODE,
        "labelSelector": {
            "matchLabels": {
                naming.LABEL_RUN: plan.run_id,
                naming.LABEL_ATTEMPT: str(plan.attempt),
            },
            "matchExpressions": [
                {"key": pod_names.LABEL_REPLICATED_JOB, "operator": "In", "values": names}
            ],
        },
    }


def _exclusive_label(placed: PlacedRun) -> str | None:
    """Return the node label that must hold the run's id: only a run of whole nodes claims any."""
    return placed.kubernetes.exclusive_label if placed.plan.pool.exclusive_nodes else None
