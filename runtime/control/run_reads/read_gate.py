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

_RETRY_AFTER_S = 5


class ReadGate:
    """Lets some requests through and sends the others away at once."""

    def __init__(self) -> None:
        """Let nobody wait yet."""
        self._num_reading: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def entered(self, cluster: str | None) -> Iterator[None]:
        """Read from a cluster, or from none, in the block; raises BusyError."""
        if cluster is None:
            yield
            return
        with self._lock:
            num_here, num_in_all = self._num_reading[cluster], self._num_reading.total()
            if num_here >= NUM_AT_ONCE or num_in_all >= NUM_IN_ALL:
                raise BusyError(
                    f"cluster {cluster} is asked by {num_here} requests already, and all clusters "
                    f"by {num_in_all}: one of them may be away; try again in {_RETRY_AFTER_S} s",
                    retry_after_s=_RETRY_AFTER_S,
                )
            self._num_reading[cluster] += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_reading[cluster] -= 1
