"""Resources of a run's pods: GPUs, and the CPUs, memory and devices that go with them. Pure.

GPUs, RDMA devices and huge pages are requests equal to limits, as Kubernetes wants it. CPUs are
requests only: a pod may use what others leave. A memory limit makes a leak end its own pod as
OOMKilled, with a name, instead of whatever the node's kernel picks.
"""

from dataclasses import dataclass

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from runtime import naming
from runtime.cluster import GpuOffer
from runtime.pod_transport import rdma_offer

GPU = "nvidia.com/gpu"
HUGEPAGES = "hugepages-2Mi"

NODE_SHARE = 0.85
"""What a run's GPU pods take of a whole node's CPUs and memory. The rest is for the daemons of the
node and for the run's own pods without a GPU: 28 CPUs and 300 GiB of a p5.48xlarge."""

SHARED_NODE_SHARE = 0.5
"""What the GPU pods of a run that shares its node ask for of their GPUs' part of it: enough not to
starve, little enough that other pods of the node do not keep the run waiting."""

EPHEMERAL_SHARE = 0.5
"""What a run takes of a whole node's ephemeral storage, where the image (20 GiB) lies too."""

UNKNOWN_GPU_POD = (1.0, 4.0)
"""CPUs and GiB of a GPU pod on nodes of unknown shape. Source: prime-rl's helm chart."""

CPU_POD_SHARE = 0.02
"""What a pod without a GPU asks for of a node, up to its role's figure in CPU_PODS."""

CPU_PODS = {
    naming.ORCHESTRATOR: (4.0, 16.0),
    naming.ENV_SERVER: (2.0, 8.0),
    naming.ROUTER: (1.0, 2.0),
}
"""CPUs and GiB that a pod without a GPU asks for at most, by role."""

MAX_GPU_SHM_GIB = 64.0
UNKNOWN_GPU_SHM_GIB = 16.0
CPU_SHM_GIB = 1.0
"""Shared memory: NCCL, vLLM and data loaders exchange tensors through it, env servers a little. It
counts against the pod's memory limit, and a quarter of that is the most it gets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodShape:
    """What a pod asks for; none of the limits where the node's shape is not known."""

    cpu: float
    memory_gib: float
    memory_limit_gib: float | None
    ephemeral_gib: float | None
    shm_gib: float


def pod_shape(group: JobGroup, placed: PlacedRun) -> PodShape:
    """Return what a pod of a group asks for on the nodes of the run's GPU type."""
    offer = placed.offer
    if not group.has_gpus:
        return _without_gpus(group.role, offer)
    if offer is None or offer.cpu_per_node is None or offer.memory_gib_per_node is None:
        cpu, memory_gib = UNKNOWN_GPU_POD
        return PodShape(
            cpu=cpu,
            memory_gib=memory_gib,
            memory_limit_gib=None,
            ephemeral_gib=None,
            shm_gib=UNKNOWN_GPU_SHM_GIB,
        )
    part = group.first.num_gpus / offer.gpus_per_node
    whole = placed.plan.pool.exclusive_nodes
    share = part * (NODE_SHARE if whole else NODE_SHARE * SHARED_NODE_SHARE)
    # A run that shares its node may use what is free there: only the node's end is its limit.
    limit = offer.memory_gib_per_node * (share if whole else NODE_SHARE)
    # Kueue admits nothing that asks for a resource which its queue does not cover.
    ephemeral = offer.ephemeral_gib_per_node if placed.profile.queue is None else None
    return PodShape(
        cpu=offer.cpu_per_node * share,
        memory_gib=offer.memory_gib_per_node * share,
        memory_limit_gib=limit,
        ephemeral_gib=ephemeral * part * EPHEMERAL_SHARE if whole and ephemeral else None,
        shm_gib=min(MAX_GPU_SHM_GIB, limit / 4),
    )


def pod_resources(group: JobGroup, placed: PlacedRun) -> Manifest:
    """Return the resources of the main container of a group's pods."""
    shape = pod_shape(group, placed)
    requests = {"cpu": cpu_quantity(shape.cpu), "memory": memory_quantity(shape.memory_gib)}
    limits: dict[str, str] = {}
    if shape.memory_limit_gib is not None:
        limits["memory"] = memory_quantity(shape.memory_limit_gib)
    if shape.ephemeral_gib is not None:
        requests["ephemeral-storage"] = memory_quantity(shape.ephemeral_gib)
    devices = _devices(group, placed)
    found: Manifest = {"requests": requests | devices}
    if limits or devices:
        found["limits"] = limits | devices
    return found


def has_rdma(group: JobGroup, placed: PlacedRun) -> bool:
    """Tell whether a group's pods get RDMA devices."""
    return group.has_gpus and rdma_offer(placed.plan, placed.profile) is not None


def cpu_quantity(cpus: float) -> str:
    """Return CPUs as a quantity in thousandths, at least ten of them."""
    return f"{max(10, int(cpus * 1000))}m"


def memory_quantity(gib: float) -> str:
    """Return GiB as a quantity in MiB, at least 64 of them."""
    return f"{max(64, int(gib * 1024))}Mi"


def _without_gpus(role: str, offer: GpuOffer | None) -> PodShape:
    cpu, memory_gib = CPU_PODS[role]
    limit = None
    if offer is not None and offer.cpu_per_node is not None:
        cpu = min(cpu, offer.cpu_per_node * CPU_POD_SHARE)
    if offer is not None and offer.memory_gib_per_node is not None:
        memory_gib = min(memory_gib, offer.memory_gib_per_node * CPU_POD_SHARE)
        limit = offer.memory_gib_per_node * NODE_SHARE
    return PodShape(
        cpu=cpu,
        memory_gib=memory_gib,
        memory_limit_gib=limit,
        ephemeral_gib=None,
        shm_gib=min(CPU_SHM_GIB, limit / 4) if limit is not None else CPU_SHM_GIB,
    )


def _devices(group: JobGroup, placed: PlacedRun) -> dict[str, str]:
    """Return the extended resources and huge pages, in the part that the pod has of the node."""
    num_gpus = group.first.num_gpus
    found = {GPU: str(num_gpus)} if num_gpus else {}
    offer = rdma_offer(placed.plan, placed.profile)
    if not num_gpus or offer is None:
        return found
    assert offer.rdma_resource is not None, "an offer of RDMA names its resource"
    part = num_gpus / offer.gpus_per_node
    found[offer.rdma_resource] = str(max(1, int(offer.rdma_per_node * part)))
    pages_mib = int(offer.hugepages_2mi_per_node * part) // 2 * 2
    if pages_mib:
        found[HUGEPAGES] = f"{pages_mib}Mi"
    return found
