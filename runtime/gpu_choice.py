"""Which GPU type a run gets, and what it costs: asked, else the cheapest that is big enough. Pure.

Prices are the ClusterProfile's; without one they are the list prices of `runtime.gpus`.
"""

from runtime import gpus
from runtime.cluster import ClusterProfile, GpuOffer


def choose_gpu_type(
    asked: str | None, *, num_nodes: int, gpus_per_node: int, profile: ClusterProfile | None
) -> str | None:
    """Return the asked type, else the cheapest of the cluster that is big enough, else None."""
    if asked is not None or profile is None:
        return asked
    fitting = [
        offer
        for offer in profile.gpus
        if fits(offer, num_nodes=num_nodes, gpus_per_node=gpus_per_node)
    ]
    if not fitting:
        return None
    return min(fitting, key=lambda offer: (offer.price_usd_per_hour, offer.name)).name


def fits(offer: GpuOffer, *, num_nodes: int, gpus_per_node: int) -> bool:
    """Tell whether an offer has that many nodes of that many GPUs, whatever is free now."""
    return offer.gpus_per_node >= gpus_per_node and offer.num_nodes >= num_nodes


def price_usd_per_hour(
    gpu_type: str | None, *, num_gpus: int, profile: ClusterProfile | None
) -> float | None:
    """Return what GPUs of a type cost an hour, None where no type was chosen."""
    if gpu_type is None:
        return None
    offer = profile.offer(gpu_type) if profile is not None else None
    if offer is not None:
        return num_gpus * offer.price_usd_per_hour
    known = gpus.GPU_TYPES.get(gpu_type)
    return num_gpus * known.price_usd_per_hour if known is not None and profile is None else None


def list_price_range(num_gpus: int) -> tuple[float, float]:
    """Return the lowest and highest list price in $/hour for GPUs of any type."""
    prices = [gpu.price_usd_per_hour for gpu in gpus.GPU_TYPES.values() if gpu.memory_gib > 0]
    return num_gpus * min(prices), num_gpus * max(prices)
