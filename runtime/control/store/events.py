"""What happened to runs: a journal that only grows; the database refuses to change it."""

from sqlalchemy import Connection, select

from runtime.control.store.columns import insert, now
from runtime.control.store.tables import events
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


def list_events(connection: Connection, run_id: str, *, after: int = 0) -> list[Event]:
    """Return the events of a run with an id over `after`, the oldest first."""
    is_it = (events.c.run_id == run_id) & (events.c.event_id > after)
    query = select(events).where(is_it).order_by(events.c.event_id)
    return [Event(**row) for row in connection.execute(query).mappings()]
