"""A server put together: the store, its services for the API, and the loops that do the work.

The only module that knows every part of the control plane; `paddock serve` and `paddock reconcile`
run what it makes, and `runtime.control.app` takes its services.
"""

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime import homes
from runtime.control.artifact_store import artifacts_url, open_artifact_store
from runtime.control.billing import StoredUsage
from runtime.control.cluster_catalog import ClusterCatalog
from runtime.control.dispatcher import RunDispatcher
from runtime.control.feedback import FeedbackFile
from runtime.control.intents import StoredIntents
from runtime.control.known_clusters import KnownClusters
from runtime.control.known_stacks import KnownStacks
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.next_attempt import NextAttempts
from runtime.control.operations import OperatorLimits
from runtime.control.operator import ProcessOperator
from runtime.control.orphans import Orphan
from runtime.control.presence import host_bound, present
from runtime.control.readings import Usage
from runtime.control.reconciler import PASS_S, Reconciler
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_origin import steps_in_cluster
from runtime.control.run_places import ClusterPlaces
from runtime.control.run_reads.reads import RunReads
from runtime.control.run_sources import RunSources
from runtime.control.services import Services
from runtime.control.store.store import Store
from runtime.control.stored_services import StoredAccounts, StoredRuns, StoreHealth
from runtime.control.values import StoredRun
from runtime.control.volume_stacks import StackVolumes, VolumeLoop
from runtime.naming import new_run_id

_LOG = logging.getLogger(__name__)
_JOIN_S = 30.0
_CONNECT_S = 60.0
_POLL_S = 0.2
_ROUND_S = 1800.0
"""How long one round waits for what is under way; the next one goes on with a longer capture."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlPlane:
    """One running server: `services` are what its API stands on."""

    services: Services
    holder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What services and loops share."""

    store: Store
    keeper: LeaseKeeper
    clusters: KnownClusters
    stacks: KnownStacks
    places: ClusterPlaces
    operator: ProcessOperator
    sources: RunSources


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRound:
    """What one round found: how many runs there were to look at, and what was left behind."""

    num_runs: int
    orphans: tuple[Orphan, ...]
    is_done: bool = True
    """It brought every run as far as it goes, or ran out of time; no signal ended it."""


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
    with (
        _opened(store, checkout, environ, limits) as parts,
        _reconciler(parts) as reconciler,
        _loops(parts, reconciler),
    ):
        served = ", ".join(parts.clusters.profiles()) or "no cluster yet"
        _LOG.info("server %s serves %s", parts.keeper.holder, served)
        yield ControlPlane(services=api_services(parts), holder=parts.keeper.holder)


def reconcile_once(
    store: Store,
    *,
    checkout: Path,
    environ: Mapping[str, str],
    limits: OperatorLimits = OperatorLimits(),  # noqa: B008 - frozen
    is_over: threading.Event,
) -> OneRound:
    """Bring every run as far as it goes by now, and look for what was left behind.

    Once `is_over` is set, the rest is left to the next round. Raises SetupError as `running` does.
    """
    with (
        _opened(store, checkout, environ, limits) as parts,
        _reconciler(parts, sweeps=False) as reconciler,
    ):
        parts.clusters.refresh()
        began = time.monotonic()
        while not parts.places.are_open() and time.monotonic() < began + _CONNECT_S:
            parts.places.refresh()
            if is_over.wait(_POLL_S):
                break
        for number in itertools.count():
            parts.stacks.look()
            reconciler.make_pass()
            # what a pass has adopted is observed by the next
            is_done = number > 0 and not reconciler.is_busy()
            if is_done or time.monotonic() > began + _ROUND_S:
                break
            if is_over.wait(PASS_S):
                return OneRound(num_runs=reconciler.num_runs, orphans=(), is_done=False)
        return OneRound(num_runs=reconciler.num_runs, orphans=reconciler.sweep())


@contextmanager
def _opened(
    store: Store, checkout: Path, environ: Mapping[str, str], limits: OperatorLimits
) -> Iterator[Parts]:
    holder = new_holder()
    with present(store, holder, host_bound(store, environ)), LeaseKeeper(store, holder) as keeper:
        clusters = KnownClusters(store, checkout=checkout, environ=environ)
        parts = Parts(
            store=store,
            keeper=keeper,
            clusters=clusters,
            stacks=KnownStacks(store, checkout=checkout, environ=environ),
            places=ClusterPlaces(clusters),
            operator=ProcessOperator(store, checkout=checkout, environ=environ, limits=limits),
            sources=RunSources(clusters, open_artifact_store(artifacts_url(environ))),
        )
        try:
            yield parts
        finally:
            parts.places.close()


@contextmanager
def _reconciler(parts: Parts, *, sweeps: bool = True) -> Iterator[Reconciler]:
    capturer = StoreCapturer(parts.sources)
    reconciler = Reconciler(
        store=parts.store,
        places=parts.places,
        operator=parts.operator,
        keeper=parts.keeper,
        capturer=capturer,
        stacks=parts.stacks,
        sweeps=sweeps,
    )
    try:
        yield reconciler
    finally:
        capturer.close()
        parts.operator.close()
        reconciler.close()


@contextmanager
def _loops(parts: Parts, reconciler: Reconciler) -> Iterator[None]:
    """Run what works without being asked, until the end of the block."""
    volumes = VolumeLoop(store=parts.store, operator=parts.operator, holder=parts.keeper.holder)
    parts.clusters.refresh()
    is_over = threading.Event()
    loops = {
        "clusters": parts.clusters.run,
        "stacks": parts.stacks.run,
        "reconciler": reconciler.run,
        "volumes": volumes.run,
    }
    threads = [
        threading.Thread(target=run, args=(is_over,), name=name, daemon=True)
        for name, run in loops.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        until = time.monotonic() + _JOIN_S  # for all: whoever ends the server waits for the sum
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def new_holder() -> str:
    """Return a name for this server that none had before it."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_run_id()[:8]}"


def api_services(parts: Parts) -> Services:
    """Return what the API stands on; its loops are not begun by it."""
    store, keeper = parts.store, parts.keeper
    server = {"operator": parts.operator, "holder": keeper.holder, "server": lambda: keeper.server}
    return Services(
        accounts=StoredAccounts(store),
        runs=StoredRuns(store),
        dispatcher=RunDispatcher(
            store=store,
            clusters=parts.clusters,
            first_steps=steps_in_cluster(parts.sources),
            **server,
        ),
        intents=StoredIntents(
            store=store,
            stack_facts=parts.stacks.facts,
            judge_next=NextAttempts(store=store, clusters=parts.clusters).plan,
            **server,
        ),
        reads=_reads(parts),
        catalog=ClusterCatalog(clusters=parts.clusters, rooms=parts.places.rooms),
        volumes=StackVolumes(store=store, clusters=parts.clusters),
        feedback=FeedbackFile(homes.make_home() / "feedback.jsonl"),
        health=ServerHealth(StoreHealth(store), keeper),
    )


def _reads(parts: Parts) -> RunReads:
    def usage(run: StoredRun) -> Usage:
        return StoredUsage(store=parts.store, metrics=reads.metrics).usage(run)

    reads = RunReads(parts.sources, usage)
    return reads


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
