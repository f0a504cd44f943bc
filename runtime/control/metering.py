"""Usage intervals from what is seen of runs: who held which GPUs from when to when.

Writes only what has changed. Billing charges from the intervals.
"""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from runtime.control.billing import settle
from runtime.control.places import Places, PodUse, Seen
from runtime.control.run_memory import RunMemory
from runtime.control.store import leases, usage
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.values import MICROUSD_PER_USD, Lease, StoredRun, UsageInterval


class Metering:
    """Writes the usage of runs into the store."""

    def __init__(self, store: Store, places: Places) -> None:
        """Write here; prices are those of the places' clusters."""
        self._store = store
        self._places = places

    def meter(self, run: StoredRun, seen: Seen, memory: RunMemory, fence: Lease) -> None:
        """Write the intervals that are new or have changed since the last pass.

        Under the lease alone: a server that slept would open what its successor has closed.
        """
        changed = [use for use in seen.uses if memory.uses.get((run.attempt, use.source)) != use]
        ended_at = None
        if memory.metered < run.attempt:
            starts = [use.started_at for use in changed]
            ended_at = seen.began_at or min(starts, default=None)
        if not changed and ended_at is None:
            return
        with self._store.write() as tx:
            if not leases.is_held(tx, fence):
                return
            if ended_at is not None and run.attempt > 1:
                _close_earlier(tx, run, ended_at)
            for use in changed:
                usage.put_interval(tx, self._interval(run, use))
        memory.uses |= {(run.attempt, use.source): use for use in changed}
        memory.metered = run.attempt if ended_at is not None else memory.metered

    def _interval(self, run: StoredRun, use: PodUse) -> UsageInterval:
        price = self._places.price_usd_per_hour(run.cluster or "", use.gpu_type)
        return UsageInterval(
            run_id=run.run_id,
            attempt=run.attempt,
            source=use.source,
            gpu_type=use.gpu_type,
            num_gpus=use.num_gpus,
            price_microusd_per_gpu_hour=round(price * MICROUSD_PER_USD),
            started_at=use.started_at,
            ended_at=use.ended_at,
        )


def _close_earlier(connection: Connection, run: StoredRun, time: datetime) -> None:
    """End what earlier attempts left open: the new one began once their workloads had ended."""
    for interval in usage.list_intervals(connection, run.run_id):
        if interval.attempt < run.attempt and interval.ended_at is None:
            ended = max(time, interval.started_at)
            usage.put_interval(connection, replace(interval, ended_at=ended))


def close_intervals(connection: Connection, run: StoredRun) -> None:
    """End every interval of a run of which nothing is left, and debit the rest of its cost.

    For a pod whose end nobody saw; and a run that is over is billed no more after this.
    """
    for interval in usage.list_intervals(connection, run.run_id):
        if interval.ended_at is None:
            ended = run.ended_at or read_clock(connection)
            closed = replace(interval, ended_at=max(ended, interval.started_at))
            usage.put_interval(connection, closed)
    settle(connection, run)
