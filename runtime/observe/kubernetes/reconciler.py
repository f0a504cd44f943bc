"""Reconciler: observes all runs of a namespace until it is ended; `paddock reconcile`.

Several copies do no harm, and none is needed: it writes what `paddock wait` would write, so that a
run's record is right although nobody waits for it.
"""

import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from runtime.errors import PaddockError
from runtime.observe.kubernetes.observer import LOOK_S, RunObserver, RunView
from runtime.observe.kubernetes.watch import RunWatch

_NUM_WRITERS = 8
"""Runs that are settled at the same time: a write takes some ten milliseconds of waiting."""

_SAY_SILENCE_S = 60.0


class Reconciler:
    """Settles the runs that change, and every few seconds those whose rules wait for a time."""

    def __init__(self, watch: RunWatch, observer: RunObserver, say: Callable[[str], None]) -> None:
        """Observe what this watch sees; `say` gets a line for each transition and trouble."""
        self._watch = watch
        self._observer = observer
        self._say = say
        self._told: dict[str, tuple[int, int]] = {}
        self._silence_told = 0.0

    def run(self, *, interval_s: float = LOOK_S, is_over: Callable[[], bool]) -> None:
        """Settle runs until `is_over`; raises what makes watching impossible."""
        look_at = 0.0
        with ThreadPoolExecutor(_NUM_WRITERS, thread_name_prefix="settle") as pool:
            while not is_over():
                now = time.monotonic()
                changed = self._watch.changes(max(0.05, min(look_at - now, interval_s)))
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + interval_s
                    changed |= set(self._watch.open_run_ids())
                self._tell_silence()
                if self._watch.is_current:
                    self._settle(pool, changed)

    def run_once(self, *, timeout_s: float) -> int:
        """Settle every open run once; return how many. Raises PaddockError where it cannot."""
        deadline = time.monotonic() + timeout_s
        while not self._watch.is_current:
            self._watch.changes(0.2)
            if time.monotonic() >= deadline:
                raise PaddockError(
                    f"the cluster's objects could not be listed within {timeout_s:g} s: "
                    "see `paddock doctor`"
                )
        runs = self._watch.open_run_ids()
        with ThreadPoolExecutor(_NUM_WRITERS) as pool:
            self._settle(pool, runs)
        return len(runs)

    def _settle(self, pool: ThreadPoolExecutor, run_ids: Iterable[str]) -> None:
        for view in pool.map(self._settle_one, sorted(run_ids)):
            if view is not None:
                self._tell(view)

    def _settle_one(self, run_id: str) -> RunView | None:
        try:
            return self._observer.settle(run_id)
        except PaddockError as error:
            self._say(f"{run_id}: {error}")
        except Exception:  # one run's trouble must not end the others' observation
            self._say(f"{run_id}: {traceback.format_exc()}")
        return None

    def _tell(self, view: RunView) -> None:
        record = view.record
        mark = (record.attempt, len(record.times))
        if self._told.get(record.run_id) == mark:
            return
        is_news = record.run_id in self._told or not record.is_over
        self._told[record.run_id] = mark
        if is_news:
            why = f" ({record.reason})" if record.reason else ""
            self._say(f"{record.run_id} attempt {record.attempt} {record.state}{why}")

    def _tell_silence(self) -> None:
        since = self._watch.unreachable_since
        if since is None:
            self._silence_told = 0.0
        elif time.monotonic() - self._silence_told >= _SAY_SILENCE_S:
            self._silence_told = time.monotonic()
            self._say(f"the Kubernetes API cannot be reached since {stamp(since)}")


def stamp(moment: float) -> str:
    """Return a Unix time as people of this place read it."""
    return time.strftime("%H:%M:%S", time.localtime(moment))
