"""LeaseKeeper: the shards of runs that this server works on, shared out between living servers.

A run belongs to one of 16 shards; who holds a shard's lease reconciles its runs, who holds the
`scheduler` lease promotes. Every write names the lease, so a server that slept past its end
changes nothing. A thread renews; a server that dies is replaced once its leases have run out.
"""

import logging
import math
import threading
import time
import zlib
from typing import Self

from sqlalchemy.exc import DBAPIError

from runtime.control.operations import server_lease
from runtime.control.store import leases
from runtime.control.store.store import Store
from runtime.control.values import Lease
from runtime.errors import StoreError

NUM_SHARDS = 16
TTL_S = 15.0
SCHEDULER = "scheduler"

_SERVER = server_lease("")
_LOG = logging.getLogger(__name__)


def shard_of(run_id: str) -> str:
    """Return the name of the lease under which a run is reconciled."""
    return f"shard/{zlib.crc32(run_id.encode()) % NUM_SHARDS:02d}"


SHARDS = tuple(f"shard/{number:02d}" for number in range(NUM_SHARDS))


class LeaseKeeper:
    """Holds this server's leases from `with` to its end; safe to ask from any thread."""

    def __init__(self, store: Store, holder: str, *, ttl_s: float = TTL_S) -> None:
        """Hold leases as this holder, whose name no other server ever has."""
        self._store = store
        self.holder = holder
        self._ttl_s = ttl_s
        self._held: dict[str, tuple[Lease, float]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)

    def __enter__(self) -> Self:
        """Take what is free, and go on renewing it."""
        self.tend()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of everything, so that another server goes on at once."""
        self._closed.set()
        self._thread.join()
        held, self._held = self._held, {}
        try:
            with self._store.write() as tx:
                for name in sorted(held):
                    leases.release(tx, held[name][0])
        except (StoreError, DBAPIError) as error:
            _LOG.warning("the leases are left to run out: %s", error)

    def lease(self, name: str) -> Lease | None:
        """Return a lease while it is surely held, else None."""
        found = self._held.get(name)
        # what was not renewed in time counts as lost before the database gives it away
        if found is None or time.monotonic() - found[1] > self._ttl_s * 0.8:
            return None
        return found[0]

    @property
    def server(self) -> Lease | None:
        """Return the lease by which others know that this server lives."""
        return self.lease(server_lease(self.holder))

    def shards(self) -> frozenset[str]:
        """Return the shards that are held now."""
        return frozenset(name for name in SHARDS if self.lease(name) is not None)

    def tend(self) -> None:
        """Renew what is held, let go of more than this server's share, take what is free."""
        self._renew()
        self._take(server_lease(self.holder))
        with self._store.read() as tx:
            living = {lease.name for lease in leases.list_held(tx)}
        num_servers = max(1, sum(name.startswith(_SERVER) for name in living))
        share = math.ceil(NUM_SHARDS / num_servers)
        mine = sorted(name for name in SHARDS if name in self._held)
        for name in mine[share:]:
            self._let_go(name)
        free = [name for name in SHARDS if name not in living]
        for name in free[: max(0, share - len(mine))]:
            self._take(name)
        if SCHEDULER not in living:
            self._take(SCHEDULER)

    def _keep(self) -> None:
        while not self._closed.wait(self._ttl_s / 5):
            try:
                self.tend()
            except (StoreError, DBAPIError) as error:
                _LOG.warning("the leases could not be renewed: %s", error)
            except Exception:  # without this thread the server does nothing more, for good
                _LOG.exception("the leases could not be renewed")

    def _renew(self) -> None:
        began = time.monotonic()
        renewed, lost = {}, []
        with self._store.write() as tx:
            for name, (lease, _) in sorted(self._held.items()):  # in one order: no deadlock
                if leases.renew(tx, lease, self._ttl_s):
                    renewed[name] = (lease, began)
                else:
                    lost.append(name)
        self._held.update(renewed)
        for name in lost:
            self._held.pop(name, None)
            _LOG.warning("%s has gone to another server", name)

    def _take(self, name: str) -> None:
        if name in self._held:
            return
        began = time.monotonic()
        with self._store.write() as tx:
            lease = leases.acquire(tx, name, self.holder, self._ttl_s)
        if lease is not None:
            self._held[name] = (lease, began)

    def _let_go(self, name: str) -> None:
        lease, _ = self._held.pop(name)
        with self._store.write() as tx:
            leases.release(tx, lease)
