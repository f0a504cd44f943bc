"""The newest operation on each run's stack: what is under way, who performs it, how it ended.

`begin` is called in the transaction of the decision, before the operation is started; `finish` by
the server that started it. An operation's id is the fence: whoever was replaced changes nothing.
"""

from sqlalchemy import Connection, select

from runtime.control.operations import (
    CAPACITY,
    LOST_LEASE,
    Operation,
    OperationKind,
    OperationReport,
    OperationState,
    StoredOperation,
)
from runtime.control.store.columns import insert, now
from runtime.control.store.tables import operations, runs


def begin(
    connection: Connection,
    operation: Operation,
    *,
    holder: str,
    recovers: StoredOperation | None = None,
) -> bool:
    """Write that a server performs an operation; False, with nothing done, where one is running.

    A RECOVER takes the place of the running operation that it names.
    """
    before = get(connection, operation.run_id)
    before_id = before.operation_id if before is not None else ""
    is_running = before is not None and before.state is OperationState.RUNNING
    if is_running and (recovers is None or recovers.operation_id != before_id):
        return False
    values = {
        "operation_id": operation.operation_id,
        "kind": operation.kind,
        "attempt": operation.attempt,
        "cluster": operation.cluster,
        "holder": holder,
        "state": OperationState.RUNNING,
        "recovers": _recovered(before, operation, recovers),
        "num_tries": _num_tries(before, operation, recovers),
        "code": "",
        "message": "",
        "is_retryable": False,
        "started_at": now(),
        "finished_at": None,
    }
    row = insert(connection, operations).values(run_id=operation.run_id, **values)
    taken = row.on_conflict_do_update(
        index_elements=[operations.c.run_id],
        set_=values,
        where=operations.c.operation_id == before_id,
    )
    return connection.execute(taken.returning(operations.c.run_id)).first() is not None


def finish(connection: Connection, report: OperationReport) -> bool:
    """Write how an operation ended; False where it was replaced, or its end is written already."""
    assert report.state is not OperationState.RUNNING, "the end of an operation"
    is_it = (operations.c.operation_id == report.operation_id) & (
        operations.c.state == OperationState.RUNNING
    )
    changed = operations.update().where(is_it)
    changed = changed.values(
        state=report.state,
        code=report.code,
        message=report.message,
        is_retryable=report.is_retryable,
        finished_at=now(),
    )
    return connection.execute(changed).rowcount > 0


def amend(connection: Connection, operation: StoredOperation) -> None:
    """Write kind, state and tries of an operation that is over, unless it was replaced."""
    is_it = (operations.c.operation_id == operation.operation_id) & (
        operations.c.state != OperationState.RUNNING
    )
    names = ("kind", "state", "recovers", "num_tries")
    values = {name: getattr(operation, name) for name in names}
    connection.execute(operations.update().where(is_it).values(**values))


def get(connection: Connection, run_id: str) -> StoredOperation | None:
    """Return the newest operation of a run."""
    row = connection.execute(select(operations).where(operations.c.run_id == run_id))
    found = row.mappings().first()
    return StoredOperation(**found) if found else None


def list_of_live_runs(connection: Connection) -> dict[str, StoredOperation]:
    """Return the newest operation of each run that the reconciler still has to do with."""
    query = select(operations).join(runs, runs.c.run_id == operations.c.run_id)
    rows = connection.execute(query.where(runs.c.is_live)).mappings()
    return {row["run_id"]: StoredOperation(**row) for row in rows}


def _num_tries(
    before: StoredOperation | None, operation: Operation, recovers: StoredOperation | None
) -> int:
    if before is None or before.attempt != operation.attempt:
        return 1
    if before.kind is operation.kind:
        if before.code == CAPACITY:  # it failed by nothing of its own
            return 1
        return before.num_tries + (before.code != LOST_LEASE)  # which was never begun
    if operation.kind is OperationKind.RECOVER and recovers is None:  # it met a lock
        return before.num_tries
    is_after_lock = before.kind is OperationKind.RECOVER and before.recovers is None
    return before.num_tries + 1 if is_after_lock else 1


def _recovered(
    before: StoredOperation | None, operation: Operation, recovers: StoredOperation | None
) -> OperationKind | None:
    """Return what a RECOVER recovers; one that is tried again goes on with the same."""
    if operation.kind is not OperationKind.RECOVER:
        return None
    of = recovers or before
    if of is None or of.kind is OperationKind.RECOVER:
        return of.recovers if of is not None else None
    return recovers.kind if recovers is not None else None
