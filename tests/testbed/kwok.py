"""Nodes that kwok plays: they run nothing, and say of each pod what a real node would.

Their taint is that of a GPU pool, so that only pods that ask for GPUs come to them. A Job's pod
completes after seconds unless it carries the annotation KEEP_RUNNING.
"""

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.testbed import layout
from tests.testbed.daemons import find_daemon, start_daemon
from tests.testbed.programs import Programs

KWOK = "kwok"
STAGES = layout.SOURCES / "kwok-stages.yaml"
MANAGED = "kwok.x-k8s.io/node"  # the annotation by which kwok knows its nodes
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
KEEP_RUNNING = {  # a delay without its jitter's bound is cut to that
    "pod-complete.stage.kwok.x-k8s.io/delay": "24h",
    "pod-complete.stage.kwok.x-k8s.io/jitter-delay": "24h",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What each added node has."""

    gpus: int = 8
    gpu_product: str = layout.GPU_PRODUCT
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further resources, such as `rdma/ib`, or others than these: 192 CPUs, 2 TiB, 110 pods."""
    is_tainted: bool = True


def start(programs: Programs) -> None:
    """Start kwok's controller, if it does not run."""
    if find_daemon(KWOK) is not None:
        return
    command = [programs.find(KWOK), "--kubeconfig", str(layout.KUBECONFIG)]
    command += ["--config", str(STAGES), "--manage-nodes-with-annotation-selector"]
    command += [f"{MANAGED}=fake", "--node-lease-duration-seconds", "40"]
    command += ["--cidr", "10.245.0.0/16", "--node-ip", "10.244.255.1"]
    start_daemon(KWOK, command, environment=os.environ)


def node_manifest(shape: Shape) -> dict[str, Any]:
    """Return a node of the shape, of a new name."""
    name = f"kwok-{uuid.uuid4().hex[:8]}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": KWOK,
    }
    resources = {"cpu": "192", "memory": "2Ti", "pods": "110", "ephemeral-storage": "4Ti"}
    if shape.gpus:
        resources["nvidia.com/gpu"] = str(shape.gpus)
        labels["nvidia.com/gpu.present"] = "true"
        labels["nvidia.com/gpu.product"] = shape.gpu_product
        labels["nvidia.com/gpu.count"] = str(shape.gpus)
        labels["nvidia.com/gpu.memory"] = str(layout.GPU_MEMORY_MIB)
    resources |= shape.resources
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, **shape.labels},
            "annotations": {MANAGED: "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"taints": [TAINT] if shape.is_tainted else []},
        "status": {"capacity": resources, "allocatable": resources, "phase": "Running"},
    }
