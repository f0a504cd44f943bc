"""What can be had on the clusters that are served: models and GPU types; `services.Catalog`.

Every user sees the same. What is free now is what the reconciler's places show.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from runtime.cluster import ClusterProfile, LocalConnection
from runtime.control.model_lists import ListedClusters
from runtime.control.readings import CachedModel, GpuAvailability
from runtime.control.rooms import ClusterRoom
from runtime.control.values import MICROUSD_PER_USD, User
from runtime.models import cached_models


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterCatalog:
    """The catalog of all clusters."""

    clusters: ListedClusters
    rooms: Callable[[], Iterable[ClusterRoom]]

    def models(self, user: User, team_id: str | None) -> tuple[CachedModel, ...]:
        """Return the models that start warm, by name and cluster."""
        found = [
            CachedModel(name=name, cluster=profile.name, gpu_type=offer.name)
            for profile in self.clusters.profiles().values()
            for name in self._names(profile)
            for offer in profile.gpus
        ]
        return tuple(sorted(found, key=lambda one: (one.name, one.cluster, one.gpu_type or "")))

    def gpus(self, user: User, team_id: str | None) -> tuple[GpuAvailability, ...]:
        """Return each GPU type once, at its lowest price."""
        prices: dict[str, int] = {}
        for profile in self.clusters.profiles().values():
            for offer in profile.gpus:
                price = round(offer.price_usd_per_hour * MICROUSD_PER_USD)
                prices[offer.name] = min(price, prices.get(offer.name, price))
        rooms = list(self.rooms())
        free = {offer.name for room in rooms for offer in room.profile.gpus if room.has_free(offer)}
        return tuple(
            GpuAvailability(gpu_type=name, price_microusd_per_hour=price, is_available=name in free)
            for name, price in sorted(prices.items())
        )

    def _names(self, profile: ClusterProfile) -> Iterable[str]:
        if isinstance(profile.connection, LocalConnection):
            return cached_models(profile.connection.cache_path)
        return self.clusters.models.names(profile)
