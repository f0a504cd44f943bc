"""Reads node objects: their GPU type, their taints, and what they can give to pods. Pure.

Takes node objects as the API gives them. GPU types are told by a canonical token on the labels that
GPU operators and clouds set, never by equality: one H200 is `NVIDIA-H200`, `NVIDIA-H200-SXM5-141GB`
or `nvidia-h200-141gb`. What the nodes offer together is in `runtime.kubernetes_offers`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from runtime import gpus
from runtime.cluster import Toleration

GPU_RESOURCE = "nvidia.com/gpu"
"""Extended resource of the GPUs."""

GPU_LABELS = (
    "nvidia.com/gpu.product",  # GPU feature discovery
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "skypilot.co/accelerator",
    "gpu.nvidia.com/class",  # CoreWeave
)
"""Node labels that name the GPU's type, the most trusted first."""

MEMORY_LABELS = ("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory")
"""Node labels that give the memory of one GPU in MiB."""

_PARTED = re.compile(r"MIG-|-SHARED$", re.IGNORECASE)
_RDMA = re.compile(r"^rdma/|/efa$|mlnx|hca|sriov", re.IGNORECASE)
_GPU_TAINT = re.compile(r"(^|[./])gpu$|^nvidia\.com/")
_MIB = 1024**2
_GIB = 1024**3
_UNITS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)([a-zA-Z]*)")

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFact:
    """What matters of a node: labels, taints, and what it can give to pods, in plain units."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Manifest, ...]
    num_gpus: int
    cpu: float
    memory_gib: float
    ephemeral_gib: float
    hugepages_mib: int
    rdma: Mapping[str, int]


def quantity(text: object) -> float:
    """Return a Kubernetes quantity ("191450m", "2113537464Ki", 8) as a number; 0 if it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match.group(2) not in _UNITS:
        return 0.0
    try:
        number = float(match.group(1)) * _UNITS[match.group(2)]
    except ValueError:  # 1.2.3
        return 0.0
    return number if isfinite(number) else 0.0


def node_fact(node: Manifest) -> NodeFact:
    """Return the fact of one node object."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    found = (node.get("status") or {}).get("allocatable") or {}
    return NodeFact(
        name=str(metadata.get("name", "")),
        labels=dict(metadata.get("labels") or {}),
        taints=tuple(spec.get("taints") or ()),
        num_gpus=int(quantity(found.get(GPU_RESOURCE, 0))),
        cpu=quantity(found.get("cpu", 0)),
        memory_gib=quantity(found.get("memory", 0)) / _GIB,
        ephemeral_gib=quantity(found.get("ephemeral-storage", 0)) / _GIB,
        hugepages_mib=int(quantity(found.get("hugepages-2Mi", 0)) / _MIB),
        rdma={
            name: int(quantity(count))
            for name, count in found.items()
            if is_rdma(name) and quantity(count) >= 1
        },
    )


def is_rdma(resource: str) -> bool:
    """Tell whether an extended resource stands for RDMA devices, whatever plugin names it."""
    return _RDMA.search(resource) is not None


def gpu_type_of(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (GPU type, label key) of a node's labels, or None where no label names a known one."""
    for key in GPU_LABELS:
        value = labels.get(key)
        if value is None or _PARTED.search(value):
            continue
        for gpu in gpus.GPU_TYPES.values():
            if gpu.label_tokens and _names(gpu, value, labels):
                return gpu.name, key
    return None


def tolerates(tolerations: Iterable[Toleration], taint: Manifest) -> bool:
    """Tell whether one of the tolerations lets a pod onto a node with the taint."""
    return any(_lets(one, taint) for one in tolerations)


def is_gpu_taint(taint: Manifest) -> bool:
    """Tell whether a taint only keeps pods without GPUs off a node."""
    return bool(_GPU_TAINT.search(str(taint.get("key", ""))))


def _names(gpu: gpus.GpuType, value: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a label names the GPU; its memory may stand in a label of its own.

    A token stands alone, so that GH200 and GB200 are no H200 and B200.
    """
    token, *further = gpu.label_tokens
    if not re.search(rf"(?<![A-Z0-9]){token}(?![0-9])", value.upper()):
        return False
    memory_gib = max((quantity(labels.get(key, 0)) for key in MEMORY_LABELS), default=0.0) / 1024
    # drivers report up to 3 % less than the name says
    is_big = memory_gib >= gpu.memory_gib * 0.95
    return is_big or all(word in value.upper() for word in further)


def _lets(toleration: Toleration, taint: Manifest) -> bool:
    if toleration.effect not in {None, taint.get("effect")}:
        return False
    if toleration.key is None:
        return toleration.operator == "Exists"
    if toleration.key != taint.get("key"):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.get("value", "")
