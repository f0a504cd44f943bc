"""Whether a run's pods talk by RDMA, and what to tell its user about it and about the queue. Pure.

Read by the manifests, the printed plan and the observer that compares NCCL's log with the plan.
"""

from runtime.cluster import ClusterProfile, GpuOffer
from runtime.plan import RunPlan

STOCK_IMAGES = ("primeintellect/prime-rl", "primeintellect-ai/prime-rl")
"""prime-rl's own images: no libfabric and no aws-ofi-nccl. Source: its Dockerfile.cuda, 2026-08."""


def rdma_offer(plan: RunPlan, profile: ClusterProfile) -> GpuOffer | None:
    """Return the GPU type whose RDMA devices the run's pods get; None where they get none.

    Only a run of whole nodes gets them: pods that share a node talk over NVLink.
    """
    gpu_type = plan.pool.gpu_type
    offer = profile.offer(gpu_type) if gpu_type is not None else None
    if offer is None or not plan.pool.exclusive_nodes:
        return None
    return offer if offer.rdma_resource is not None and offer.rdma_per_node > 0 else None


def is_efa(resource: str) -> bool:
    """Tell whether an extended resource stands for AWS' Elastic Fabric Adapters."""
    return resource.endswith("/efa")


def transport_notices(plan: RunPlan, profile: ClusterProfile) -> list[str]:
    """Return a warning where the image cannot drive the RDMA devices that its pods get."""
    offer, kubernetes = rdma_offer(plan, profile), profile.kubernetes
    if offer is None or kubernetes is None or not is_efa(offer.rdma_resource or ""):
        return []
    if not kubernetes.image_repository.endswith(STOCK_IMAGES):
        return []
    return [
        f"transport: {kubernetes.image_repository} has neither libfabric nor aws-ofi-nccl, so NCCL"
        f" will use TCP and not {offer.rdma_resource}: set paddock:image of {profile.name} to an"
        " image that has them"
    ]


def gang_notices(plan: RunPlan, profile: ClusterProfile) -> list[str]:
    """Return a notice where a part of the run's pods may hold GPUs while the rest waits."""
    kubernetes = profile.kubernetes
    if kubernetes is None or plan.num_gpus == 0:
        return []
    if profile.queue is not None:
        if kubernetes.jobset:
            return []
        return [
            f"queue: {profile.name} has no JobSet, so queue {profile.queue} admits the run's Jobs"
            " one by one, not all or none: partial scheduling is possible"
        ]
    if kubernetes.gang_api is not None:
        return []
    return [
        f"scheduling: {profile.name} has neither a queue nor gang scheduling: partial scheduling"
        " is possible, and GPUs may be held while other pods of the run wait"
    ]
