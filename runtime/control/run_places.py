"""ClusterPlaces: the clusters that a control plane serves, and the place of each run on them.

Opens one sight a cluster, keeps it while the cluster's profile stays the same, and lets a cluster
that does not answer hold up no other. The modules of a target are loaded where one has runs.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from runtime.cluster import ClusterProfile, LocalConnection
from runtime.control.local_runs import LocalPlace, LocalSight
from runtime.control.places import Clusters, FoundRun, Leftover, RunPlace
from runtime.control.rooms import ClusterRoom
from runtime.control.values import StoredRun
from runtime.errors import PaddockError

if TYPE_CHECKING:
    from runtime.control.pod_sight import PodSight

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_AGAIN_S = 10.0
"""How long a cluster that could not be connected to is left alone."""


class ClusterPlaces:
    """The places of runs; safe to use from several threads."""

    def __init__(self, clusters: Clusters) -> None:
        """Serve these clusters; nothing is connected to yet."""
        self._clusters = clusters
        self._sights: dict[str, LocalSight | PodSight] = {}
        self._again: dict[str, float] = {}
        self._opening: set[str] = set()

    def refresh(self) -> None:
        """Begin a pass: open new clusters, and look again at what all runs of one share."""
        profiles = self._clusters.profiles()
        for name in [name for name in self._sights if name not in profiles]:
            self._drop(name)
        for name, profile in profiles.items():
            self._open(name, profile)
        for name, sight in list(self._sights.items()):
            try:
                sight.refresh()
            except PaddockError as error:
                _LOG.error("cluster %s: %s", name, error)
                self._drop(name)
                self._again[name] = time.monotonic() + _AGAIN_S

    def close(self) -> None:
        """Stop watching."""
        for name in list(self._sights):
            self._drop(name)

    def place_of(self, run: StoredRun) -> RunPlace | None:
        """Return the place of a run, None while it has no cluster, or one that is not connected."""
        sight = self._sights.get(run.cluster or "")
        if sight is None:
            return None
        if isinstance(sight, LocalSight):
            volume = run.settings.get("volume")
            path = self._clusters.volume_path(str(run.cluster), str(volume)) if volume else None
            return LocalPlace(run=run, sight=sight, volume_path=path)
        from runtime.control.pod_runs import PodPlace

        return PodPlace(run=run, sight=sight)

    def rooms(self) -> tuple[ClusterRoom, ...]:
        """Return the room of each cluster; one that does not answer has none, and says so."""
        found = self._each(lambda sight: [sight.room()])
        seen = {room.cluster for room in found}
        away = (one for name, one in self._clusters.profiles().items() if name not in seen)
        return (
            *found,
            *(
                ClusterRoom(profile=one, nodes=(), trouble=f"cluster {one.name} does not answer")
                for one in away
            ),
        )

    def answering(self) -> frozenset[str]:
        """Return the clusters that show all of their runs now."""
        return frozenset(name for name, sight in list(self._sights.items()) if sight.is_current)

    def are_open(self) -> bool:
        """Tell whether every cluster answers, or has failed to."""
        local = {name for name, one in list(self._sights.items()) if isinstance(one, LocalSight)}
        return self._clusters.profiles().keys() <= self.answering() | self._again.keys() | local

    def found_runs(self) -> tuple[FoundRun, ...]:
        """Return the runs that the clusters know by their records."""
        return tuple(self._each(lambda sight: sight.found_runs()))

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return everything that carries a run's label or mark."""
        return tuple(self._each(lambda sight: sight.leftovers()))

    def price_usd_per_hour(self, cluster: str, gpu_type: str) -> float:
        """Return the price of a GPU for an hour, 0 where it is not known."""
        profile = self._clusters.profiles().get(cluster)
        offer = profile.offer(gpu_type) if profile is not None else None
        return offer.price_usd_per_hour if offer is not None else 0.0

    def _each(self, look: "Callable[[LocalSight | PodSight], list[T]]") -> list[T]:
        found: list[T] = []
        for name, sight in list(self._sights.items()):
            try:
                found += look(sight)
            except PaddockError as error:
                _LOG.warning("cluster %s: %s", name, error)
        return found

    def _open(self, name: str, profile: ClusterProfile) -> None:
        known = self._sights.get(name)
        if known is not None and known.profile == profile:
            return
        if isinstance(profile.connection, LocalConnection):
            self._drop(name)
            self._sights[name] = LocalSight(profile)
            return
        if name in self._opening or time.monotonic() < self._again.get(name, 0.0):
            return
        self._opening.add(name)
        threading.Thread(target=self._connect, args=(name, profile), daemon=True).start()

    def _connect(self, name: str, profile: ClusterProfile) -> None:
        """Open the sight of a cluster whose API may not answer: no pass waits for that."""
        from runtime.control.pod_sight import open_sight

        try:
            opened = open_sight(profile)
        except PaddockError as error:
            _LOG.warning("cluster %s: %s", name, error)
            self._again[name] = time.monotonic() + _AGAIN_S
        else:
            self._drop(name)
            self._sights[name] = opened
        finally:
            self._opening.discard(name)

    def _drop(self, name: str) -> None:
        sight = self._sights.pop(name, None)
        if sight is not None and not isinstance(sight, LocalSight):
            with contextlib.suppress(PaddockError):
                sight.close()
