"""Runs: the current attempt as a row that is changed by compare-and-set, each attempt as history.

Whoever changes a run names the version that it has read, and the lease that it works under; a lost
race changes nothing. Which state may follow is decided by the caller (`runtime.states`).
"""

from collections.abc import Mapping
from dataclasses import fields

from sqlalchemy import ColumnElement, Connection, RowMapping, select

from runtime.control.store import leases
from runtime.control.store.columns import insert, now
from runtime.control.store.tables import attempts, runs
from runtime.control.values import Attempt, Lease, NewRun, StoredRun, Wish
from runtime.errors import ConflictError
from runtime.run_record import ExitDetails
from runtime.stack_settings import SECRET_KEYS
from runtime.states import Capture, Teardown

_KEPT = {"run_id", "created_at", "updated_at", "version"}
_COLUMNS = [column for column in runs.c if column is not runs.c.is_live]
_CHANGEABLE = frozenset(field.name for field in fields(StoredRun)) - _KEPT


def insert_run(connection: Connection, run: NewRun) -> StoredRun:
    """Store a new run with its first attempt; raises ConflictError when the id is taken."""
    _check_settings(run.settings)
    row = insert(connection, runs).values(
        **{field.name: getattr(run, field.name) for field in fields(NewRun)},
        wish=Wish.RUN,
        teardown=Teardown.NONE,
        capture=Capture.NONE,
        created_at=now(),
        updated_at=now(),
        version=1,
    )
    made = connection.execute(row.on_conflict_do_nothing().returning(*_COLUMNS)).mappings().first()
    if made is None:
        raise ConflictError(f"there is a run {run.run_id}: a run's id is never used again")
    stored = _stored_run(made)
    _keep_attempt(connection, stored)
    return stored


def get_run(connection: Connection, run_id: str, *, locks: bool = False) -> StoredRun | None:
    """Return a run by id, whosever it is, deleted ones included.

    `locks`: nobody else changes it to the end of the transaction.
    """
    query = select(*_COLUMNS).where(runs.c.run_id == run_id)
    if locks:
        query = query.with_for_update()
    row = connection.execute(query).mappings().first()
    return _stored_run(row) if row else None


def compare_and_set(
    connection: Connection,
    run_id: str,
    version: int,
    *,
    fence: Lease | None = None,
    **changes: object,
) -> StoredRun | None:
    """Change fields of a run that is still at this version, and return it as it is then.

    None, with nothing changed, where somebody else wrote it first or took the lease `fence`.
    """
    unknown = changes.keys() - _CHANGEABLE
    assert not unknown, f"no fields to change: {sorted(unknown)}"
    if "settings" in changes:
        _check_settings(changes["settings"])
    if fence is not None and not leases.is_held(connection, fence):
        return None
    changed = (
        runs.update()
        .where(runs.c.run_id == run_id, runs.c.version == version)
        .values(**_as_columns(changes), version=version + 1, updated_at=now())
        .returning(*_COLUMNS)
    )
    row = connection.execute(changed).mappings().first()
    if row is None:
        return None
    stored = _stored_run(row)
    _keep_attempt(connection, stored)
    return stored


def list_attempts(connection: Connection, run_id: str) -> list[Attempt]:
    """Return the attempts of a run, the first one first."""
    query = select(attempts).where(attempts.c.run_id == run_id).order_by(attempts.c.attempt)
    return [Attempt(**row) for row in connection.execute(query).mappings()]


def read_runs(
    connection: Connection, where: ColumnElement[bool], *order: ColumnElement[object]
) -> list[StoredRun]:
    """Return the runs of a condition; for the other modules of the store."""
    rows = connection.execute(select(*_COLUMNS).where(where).order_by(*order)).mappings()
    return [_stored_run(row) for row in rows]


def _keep_attempt(connection: Connection, run: StoredRun) -> None:
    """Write the run's current attempt into its history."""
    current = {
        "state": run.state,
        "reason": run.reason,
        "cluster": run.cluster,
        "gpu_type": run.gpu_type,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }
    row = insert(connection, attempts).values(
        run_id=run.run_id, attempt=run.attempt, created_at=run.updated_at, **current
    )
    key = [attempts.c.run_id, attempts.c.attempt]
    connection.execute(row.on_conflict_do_update(index_elements=key, set_=current))


def _stored_run(row: RowMapping) -> StoredRun:
    details = row["exit_details"]
    lists = {name: tuple(row[name]) for name in ("environments", "secret_names")}
    exit_details = ExitDetails.model_validate(details) if details else None
    return StoredRun(**{**row, **lists, "exit_details": exit_details})


def _as_columns(changes: Mapping[str, object]) -> dict[str, object]:
    details = changes.get("exit_details")
    if isinstance(details, ExitDetails):
        return {**changes, "exit_details": details.model_dump(mode="json")}
    return dict(changes)


def _check_settings(settings: object) -> None:
    assert isinstance(settings, Mapping)
    assert SECRET_KEYS.isdisjoint(settings), "a secret setting is kept in the stack's file only"
