"""How often a user may ask: a bucket of tokens for each user and kind of request, in memory.

Each replica counts for itself, so a user of three replicas may ask three times as often; the limits
guard a server against a loop in somebody's shell, they are no quota.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from runtime.control.errors_http import RateLimitedError

_MAX_BUCKETS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """At most `burst` requests at once, and `per_second` over time."""

    burst: int
    per_second: float


DISPATCH_RATE = Rate(burst=60, per_second=1.0)
"""A campaign of 60 runs goes through at once."""

LOGS_RATE = Rate(burst=60, per_second=4.0)
"""`prime train logs -f` asks every 5 s, so 20 of them at once stay below it."""


NOTES_RATE = Rate(burst=30, per_second=0.1)
"""For what a person does by hand: changes of volumes, and feedback, which is kept for ever."""


class RateLimit:
    """Takes a request of a user, or refuses it and says when to come back."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with every bucket full."""
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, user_id: str) -> None:
        """Count a request. Raises RateLimitedError with the seconds until there is room."""
        with self._lock:
            now = self._clock()
            tokens = self._tokens(user_id, now)
            if tokens >= 1:
                self._buckets[user_id] = (tokens - 1, now)
                self._forget_full(now)
                return
        wait_s = max(1, ceil((1 - tokens) / self._rate.per_second))
        raise RateLimitedError(
            f"too many requests: at most {self._rate.burst} at once and "
            f"{self._rate.per_second:g} per second; try again in {wait_s} s",
            retry_after_s=wait_s,
        )

    def _tokens(self, user_id: str, now: float) -> float:
        tokens, then = self._buckets.get(user_id, (float(self._rate.burst), now))
        return min(float(self._rate.burst), tokens + (now - then) * self._rate.per_second)

    def _forget_full(self, now: float) -> None:
        """Keep memory bounded: a full bucket is the same as none."""
        if len(self._buckets) > _MAX_BUCKETS:
            full = [u for u in self._buckets if self._tokens(u, now) >= self._rate.burst]
            for user_id in full:
                del self._buckets[user_id]
