"""ReadGate: how many requests may read from one cluster at once, and from all of them.

A request waits in a thread for a cluster that does not answer, and threads are what all routes of
the API share. Only what is read for the API passes here; observation and capture do not.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.control.errors_http import BusyError

NUM_AT_ONCE = 8
"""Requests that read from one cluster."""

NUM_IN_ALL = 24
"""Requests that read from any cluster, of the 40 threads that Starlette has."""

NUM_WAITING = 8
"""Requests that wait for one of those to end, so that a burst of short reads refuses nobody."""

WAIT_S = 2.0
_RETRY_AFTER_S = 5


class ReadGate:
    """Lets some requests through, a few wait for a moment, the others are sent away at once."""

    def __init__(self) -> None:
        """Let nobody wait yet."""
        self._num_reading: Counter[str] = Counter()
        self._num_waiting = 0
        self._free = threading.Condition()

    @contextmanager
    def entered(self, cluster: str | None) -> Iterator[None]:
        """Read from a cluster, or from none, in the block; raises BusyError."""
        if cluster is None:
            yield
            return
        with self._free:
            if not (self._has_room(cluster) or self._waited(cluster)):
                num_here, num_in_all = self._num_reading[cluster], self._num_reading.total()
                raise BusyError(
                    f"cluster {cluster} is asked by {num_here} requests already, and all clusters "
                    f"by {num_in_all}: one of them may be away; try again in {_RETRY_AFTER_S} s",
                    retry_after_s=_RETRY_AFTER_S,
                )
            self._num_reading[cluster] += 1
        try:
            yield
        finally:
            with self._free:
                self._num_reading[cluster] -= 1
                self._free.notify_all()

    def _has_room(self, cluster: str) -> bool:
        num_here, num_in_all = self._num_reading[cluster], self._num_reading.total()
        return num_here < NUM_AT_ONCE and num_in_all < NUM_IN_ALL

    def _waited(self, cluster: str) -> bool:
        """Wait for room, unless too many do; tell whether there is some."""
        if self._num_waiting >= NUM_WAITING:
            return False
        self._num_waiting += 1
        try:
            return self._free.wait_for(lambda: self._has_room(cluster), WAIT_S)
        finally:
            self._num_waiting -= 1
