"""A server put together: the store, its services for the API, and the loops that do the work.

The only module that knows every part of the control plane; `paddock serve` runs what it makes, and
`runtime.control.app` takes its services.
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime import homes
from runtime.control.cluster_catalog import ClusterCatalog
from runtime.control.dispatcher import RunDispatcher
from runtime.control.intents import StoredIntents
from runtime.control.known_clusters import KnownClusters
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.no_reads import NoReads
from runtime.control.operator import OperatorLimits, ProcessOperator
from runtime.control.presence import host_bound, present
from runtime.control.reconciler import Reconciler
from runtime.control.requests import FeedbackNote
from runtime.control.run_places import ClusterPlaces
from runtime.control.services import Services
from runtime.control.store.store import Store
from runtime.control.stored_services import StoredAccounts, StoredRuns, StoreHealth
from runtime.control.values import User
from runtime.control.volume_stacks import StackVolumes, VolumeLoop
from runtime.naming import new_run_id

_LOG = logging.getLogger(__name__)
_JOIN_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlPlane:
    """One running server: `services` are what its API stands on."""

    services: Services
    holder: str


@contextmanager
def running(
    store: Store,
    *,
    checkout: Path,
    environ: Mapping[str, str],
    limits: OperatorLimits = OperatorLimits(),  # noqa: B008 - frozen
) -> Iterator[ControlPlane]:
    """Run the loops of a server, from its entry among the servers of the database to its end.

    Raises SetupError where it may not work beside another server. At the end no more work is
    taken; what an operation does goes on without the server.
    """
    holder = new_holder()
    with present(store, holder, host_bound(store, environ)), LeaseKeeper(store, holder) as keeper:
        clusters = KnownClusters(store, checkout=checkout, environ=environ)
        operator = ProcessOperator(store, checkout=checkout, environ=environ, limits=limits)
        places = ClusterPlaces(clusters)
        reconciler = Reconciler(store=store, places=places, operator=operator, keeper=keeper)
        clusters.refresh()
        services = _services(store, clusters, places, operator, keeper)
        volumes = VolumeLoop(store=store, operator=operator, holder=holder)
        is_over = threading.Event()
        loops = {"clusters": clusters.run, "reconciler": reconciler.run, "volumes": volumes.run}
        threads = [
            threading.Thread(target=run, args=(is_over,), name=name, daemon=True)
            for name, run in loops.items()
        ]
        for thread in threads:
            thread.start()
        _LOG.info("server %s serves %s", holder, ", ".join(clusters.profiles()) or "no cluster yet")
        try:
            yield ControlPlane(services=services, holder=holder)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(_JOIN_S)
            operator.close()
            reconciler.close()
            places.close()


def new_holder() -> str:
    """Return a name for this server that none had before it."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_run_id()[:8]}"


def _services(
    store: Store,
    clusters: KnownClusters,
    places: ClusterPlaces,
    operator: ProcessOperator,
    keeper: LeaseKeeper,
) -> Services:
    return Services(
        accounts=StoredAccounts(store),
        runs=StoredRuns(store),
        dispatcher=RunDispatcher(
            store=store,
            clusters=clusters,
            operator=operator,
            holder=keeper.holder,
            server=lambda: keeper.server,
        ),
        intents=StoredIntents(
            store=store,
            operator=operator,
            holder=keeper.holder,
            server=lambda: keeper.server,
        ),
        reads=NoReads(),
        catalog=ClusterCatalog(clusters=clusters, rooms=places.rooms),
        volumes=StackVolumes(store=store, clusters=clusters),
        feedback=FeedbackFile(homes.make_home() / "feedback.jsonl"),
        health=ServerHealth(StoreHealth(store), keeper),
    )


class ServerHealth:
    """Whether this server can work: its database answers, and others know that it lives."""

    def __init__(self, store: StoreHealth, keeper: LeaseKeeper) -> None:
        """Keep what is asked."""
        self._store = store
        self._keeper = keeper

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong now; empty = ready."""
        found = self._store.problems()
        if not found and self._keeper.server is None:
            return ("this server's lease has run out, so it begins nothing",)
        return found


class FeedbackFile:
    """Notes of users for the operators, one line of JSON each; `services.Feedback`."""

    def __init__(self, path: Path) -> None:
        """Keep the path; the file is made with the first note."""
        self._path = path
        self._lock = threading.Lock()

    def add(self, user: User, note: FeedbackNote) -> None:
        """Add a note."""
        line = {
            "user": user.email,
            "category": note.category,
            "run": note.run_id,
            "message": note.message,
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._lock, os.fdopen(os.open(self._path, flags, 0o600), "a") as file:
            file.write(json.dumps(line) + "\n")
        _LOG.info("feedback of %s is in %s", user.user_id, self._path)
