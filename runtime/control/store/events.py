"""What happened to runs: a journal that only grows; the database refuses to change it."""

from datetime import datetime

from sqlalchemy import Connection, select

from runtime.control.store.columns import EPOCH, insert, now
from runtime.control.store.tables import events, runs
from runtime.control.values import Event, StoredRun
from runtime.states import RunState


def add_event(
    connection: Connection,
    run: StoredRun,
    kind: str,
    *,
    state: RunState | None = None,
    message: str = "",
) -> int:
    """Add to the journal of a run, at its current attempt, and return the event's id.

    A message is for the run's readers: never the value of a secret.
    """
    row = insert(connection, events).values(
        run_id=run.run_id,
        attempt=run.attempt,
        time=now(),
        kind=kind,
        state=state,
        message=message,
    )
    return connection.execute(row.returning(events.c.event_id)).scalar_one()


def add_event_once(
    connection: Connection, run: StoredRun, kind: str, *, message: str, since: datetime = EPOCH
) -> bool:
    """Add an event unless the run has one of the kind since a time; False where it has.

    The run's row is locked to the end of the transaction, so that of two servers one adds it.
    """
    locked = select(runs.c.version).where(runs.c.run_id == run.run_id).with_for_update()
    connection.execute(locked)
    is_it = (events.c.run_id == run.run_id) & (events.c.kind == kind) & (events.c.time >= since)
    if connection.execute(select(events.c.event_id).where(is_it).limit(1)).first() is not None:
        return False
    add_event(connection, run, kind, message=message)
    return True


def list_events(connection: Connection, run_id: str, *, after: int = 0) -> list[Event]:
    """Return the events of a run with an id over `after`, the oldest first."""
    is_it = (events.c.run_id == run_id) & (events.c.event_id > after)
    query = select(events).where(is_it).order_by(events.c.event_id)
    return [Event(**row) for row in connection.execute(query).mappings()]
