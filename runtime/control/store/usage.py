"""Usage intervals: what of a run held how many GPUs, from when to when, at what price."""

from datetime import datetime

from sqlalchemy import Connection, select

from runtime.control.store.columns import MICROSECOND, insert
from runtime.control.store.tables import usage_intervals
from runtime.control.values import UsageInterval

_MICROSECONDS_PER_HOUR = 3_600_000_000


def put_interval(connection: Connection, interval: UsageInterval) -> None:
    """Store an interval, or correct the times of the one of the same run, attempt and source."""
    key = ("run_id", "attempt", "source")
    values = {
        name: getattr(interval, name)
        for name in (*key, "gpu_type", "num_gpus", "price_microusd_per_gpu_hour")
    }
    times = {"started_at": interval.started_at, "ended_at": interval.ended_at}
    row = insert(connection, usage_intervals).values(**values, **times)
    # the price is that of the first observation: a later change of price is for later intervals
    changed = row.on_conflict_do_update(
        index_elements=[usage_intervals.c[name] for name in key], set_=times
    )
    connection.execute(changed)


def list_intervals(connection: Connection, run_id: str) -> list[UsageInterval]:
    """Return the intervals of all attempts of a run, the earliest first."""
    query = select(usage_intervals).where(usage_intervals.c.run_id == run_id)
    order = (usage_intervals.c.started_at, usage_intervals.c.attempt, usage_intervals.c.source)
    return [UsageInterval(**row) for row in connection.execute(query.order_by(*order)).mappings()]


def gpu_microseconds(
    interval: UsageInterval, until: datetime, *, ended_at: datetime | None = None
) -> int:
    """Return GPUs times microseconds of an interval, an open one counted to `until`.

    One of a run that is over counts to the run's end while it is open: whose pods' end nobody saw,
    since their cluster is silent, must not use up the wallet of the user's other runs.
    """
    end = min(interval.ended_at or ended_at or until, until)
    return interval.num_gpus * max((end - interval.started_at) // MICROSECOND, 0)


def cost_microusd(
    intervals: list[UsageInterval], until: datetime, *, ended_at: datetime | None = None
) -> int:
    """Return what intervals cost up to a time, exact but for one rounding down of the sum."""
    total = sum(
        gpu_microseconds(interval, until, ended_at=ended_at) * interval.price_microusd_per_gpu_hour
        for interval in intervals
    )
    return total // _MICROSECONDS_PER_HOUR
