"""Holders: which servers are dead, so that another one may recover from their operations.

A lease that is over is no proof of it: while the database is away all leases run out, and the first
server that reaches it again would take every other one for dead.
"""

import time
from collections.abc import Callable

from runtime.control.lease_keeper import TTL_S
from runtime.control.operations import server_lease


class Holders:
    """Judges the holders of operations by the servers' leases, look after look."""

    def __init__(self, holder: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Judge for the server of this name; `clock` is in seconds."""
        self._host = _host_of(holder)
        self._clock = clock
        self._missing: dict[str, float] = {}
        self._living: frozenset[str] = frozenset()
        self._looked = clock()

    def note(self, living: frozenset[str]) -> None:
        """Take the names of the leases that are held now.

        After a longer pause between two looks the count begins anew: this server, too, may have
        been without the database, and the others have a lease's time to come back to it.
        """
        now = self._clock()
        if now - self._looked > TTL_S / 2:
            self._missing.clear()
        self._missing = {name: since for name, since in self._missing.items() if name not in living}
        self._looked, self._living = now, living

    def is_living(self, holder: str) -> bool:
        """Tell whether a server's lease is held."""
        return server_lease(holder) in self._living

    def is_dead(self, holder: str) -> bool:
        """Tell whether a server, whose lease is over, can be taken for dead.

        One of this host can: what it left was asked for before. One of another host once its lease
        has stayed away for the time of a lease, over looks that all reached the database.
        """
        if self.is_living(holder):
            return False
        if _host_of(holder) == self._host:
            return True
        since = self._missing.setdefault(server_lease(holder), self._clock())
        return self._clock() - since >= TTL_S


def _host_of(holder: str) -> str:
    """Return the host in a name that is HOST-PID-ID (`runtime.control.assembly.new_holder`)."""
    return holder.rsplit("-", 2)[0]
