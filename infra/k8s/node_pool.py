"""The Karpenter NodePool that a run owns. Pure.

It grows to the nodes of the run's GPUs and no further, and goes with the run: nodes without pods
are removed after a minute, whoever ended the pods. It belongs to the run and not to an attempt, so
the nodes of attempt 1 serve attempt 2.
"""

import math

from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pod_placement import node_taint
from infra.k8s.pod_resources import GPU
from runtime import naming, pod_names
from runtime.cluster import NodeClass
from runtime.gpus import GPU_TYPES
from runtime.kubernetes_kinds import KINDS

EMPTY_NODES_STAY = "1m"
_AWS = "karpenter.k8s.aws"


def run_node_pool(placed: PlacedRun) -> Manifest:
    """Return the NodePool of a run on a cluster with a Karpenter node class."""
    node_class, run_id = placed.kubernetes.node_class, placed.plan.run_id
    assert node_class is not None, "a run owns nodes where the cluster names a node class"
    return {
        "apiVersion": KINDS["NodePool"].version,
        "kind": "NodePool",
        "metadata": {
            "name": pod_names.node_pool_name(placed.namespace, run_id),
            "labels": placed.labels() | {pod_names.LABEL_NAMESPACE: placed.namespace},
        },
        "spec": {
            "limits": {GPU: str(_max_gpus(placed))},
            "template": {
                "metadata": {"labels": {naming.LABEL_RUN: run_id}},
                "spec": {
                    "nodeClassRef": node_class.model_dump(),
                    "taints": [node_taint(run_id)],
                    "requirements": _requirements(placed, node_class),
                    # A node that expires takes a run of any length with it; empty ones go anyway.
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": EMPTY_NODES_STAY,
                # A changed node class or image must not replace a node under a run.
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "0", "reasons": ["Drifted", "Underutilized"]},
                ],
            },
        },
    }


def _max_gpus(placed: PlacedRun) -> int:
    """Return the run's GPUs, rounded up to whole nodes: Karpenter buys no smaller part."""
    num_gpus, offer = placed.plan.num_gpus, placed.offer
    if offer is None:
        return num_gpus
    return math.ceil(num_gpus / offer.gpus_per_node) * offer.gpus_per_node


def _requirements(placed: PlacedRun, node_class: NodeClass) -> list[Manifest]:
    """Return what Karpenter may buy: on AWS the instance types of the GPU, elsewhere its labels."""
    offer = placed.offer
    gpu_type = GPU_TYPES.get(offer.name) if offer is not None else None
    if node_class.group == _AWS and gpu_type is not None and gpu_type.aws_instance_types:
        found = {
            "node.kubernetes.io/instance-type": list(gpu_type.aws_instance_types),
            # A spot node is taken away within two minutes, and with it the run.
            "karpenter.sh/capacity-type": ["reserved", "on-demand"],
        }
    else:
        selector = offer.node_selector if offer is not None else {}
        found = {key: [value] for key, value in sorted(selector.items())}
    return [{"key": key, "operator": "In", "values": found[key]} for key in found]
