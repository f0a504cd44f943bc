"""The queue: numbers that order runs first in, first out, and what stands before a run."""

from sqlalchemy import ColumnElement, Connection, func, select

from runtime.control.store.columns import insert
from runtime.control.store.runs import read_runs
from runtime.control.store.tables import counters, runs
from runtime.control.values import StoredRun, Wish
from runtime.states import RunState

_COUNTER = "queue"


def next_queue_number(connection: Connection) -> int:
    """Return a number greater than all before it.

    Its row is locked to the end of the transaction: numbers become visible in their order, and what
    is counted after this call (`num_queued`) holds until then.
    """
    row = insert(connection, counters).values(name=_COUNTER, value=1)
    taken = row.on_conflict_do_update(
        index_elements=[counters.c.name], set_={"value": counters.c.value + 1}
    )
    return connection.execute(taken.returning(counters.c.value)).scalar_one()


def list_queued(connection: Connection) -> list[StoredRun]:
    """Return the runs that wait for a cluster, in their order."""
    return read_runs(connection, _is_waiting(), runs.c.queue_number)


def num_queued(connection: Connection, user_id: str) -> int:
    """Return how many runs of a user are queued, here or in a cluster's own queue.

    One that a cluster's queue has taken has no number any more; by hand nothing is counted.
    """
    is_counted = runs.c.queue_number.is_not(None) | ~runs.c.is_adopted
    query = select(func.count()).where(_is_queued(), is_counted, runs.c.user_id == user_id)
    return connection.execute(query).scalar_one()


def num_ahead(connection: Connection, run: StoredRun) -> int:
    """Return how many waiting runs stand before this one."""
    query = select(func.count()).where(_is_waiting(), runs.c.queue_number < run.queue_number)
    return connection.execute(query).scalar_one()


def _is_waiting() -> ColumnElement[bool]:
    return _is_queued() & runs.c.queue_number.is_not(None)


def _is_queued() -> ColumnElement[bool]:
    return (runs.c.state == RunState.QUEUED) & (runs.c.wish == Wish.RUN)
