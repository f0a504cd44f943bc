"""Operations in the store: one at a time for a run, their ends written once, by their own ids."""

from dataclasses import replace

import pytest

from runtime.control.operations import (
    Operation,
    OperationKind,
    OperationState,
    StoredOperation,
)
from runtime.control.store import operations, runs
from runtime.control.store.store import Store
from runtime.naming import new_run_id
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import report_of
from tests.runtime.control.store.rows import add_run, add_user

K = OperationKind


@pytest.fixture
def run_id(store: Store) -> str:
    """Return the id of a stored run."""
    return add_run(store, add_user(store)).run_id


def begin(
    store: Store, run_id: str, kind: OperationKind, recovers: StoredOperation | None = None
) -> Operation | None:
    """Begin an operation as server a; None where one is under way."""
    operation = Operation(
        operation_id=new_run_id(), kind=kind, run_id=run_id, attempt=1, cluster="east"
    )
    with store.write() as tx:
        is_begun = operations.begin(tx, operation, holder="a", recovers=recovers)
    return operation if is_begun else None


def finish(store: Store, operation: Operation, state: OperationState) -> bool:
    """Write the end of an operation."""
    with store.write() as tx:
        return operations.finish(tx, report_of(operation, state))


def newest(store: Store, run_id: str) -> StoredOperation:
    """Return the newest operation of a run."""
    with store.read() as tx:
        found = operations.get(tx, run_id)
    assert found is not None
    return found


def test_one_operation_of_a_run_is_under_way_at_a_time(store: Store, run_id: str) -> None:
    first = begin(store, run_id, K.MAKE)

    assert first is not None
    assert begin(store, run_id, K.UP) is None
    assert finish(store, first, OperationState.DONE)
    assert begin(store, run_id, K.UP) is not None


def test_an_end_is_written_once_and_never_for_one_that_was_replaced(
    store: Store, run_id: str
) -> None:
    first = begin(store, run_id, K.UP)
    assert first is not None
    second = begin(store, run_id, K.RECOVER, recovers=newest(store, run_id))
    assert second is not None

    assert not finish(store, first, OperationState.DONE)
    assert finish(store, second, OperationState.DONE)
    assert not finish(store, second, OperationState.FAILED)
    assert newest(store, run_id).recovers is K.UP


def test_a_recovery_that_is_tried_again_knows_what_it_recovers(store: Store, run_id: str) -> None:
    assert begin(store, run_id, K.DESTROY)
    first = begin(store, run_id, K.RECOVER, recovers=newest(store, run_id))
    assert first is not None
    finish(store, first, OperationState.FAILED)

    assert begin(store, run_id, K.RECOVER)

    again = newest(store, run_id)
    assert (again.recovers, again.num_tries) == (K.DESTROY, 2)


def test_ups_that_meet_a_lock_are_counted_over_the_recoveries(store: Store, run_id: str) -> None:
    tries = []
    for kind in (K.UP, K.RECOVER, K.RECOVER, K.UP, K.RECOVER, K.UP, K.DESTROY):
        begun = begin(store, run_id, kind)
        assert begun is not None
        finish(store, begun, OperationState.FAILED)
        tries.append(newest(store, run_id).num_tries)

    assert newest(store, run_id).recovers is None
    assert tries == [1, 1, 2, 3, 3, 4, 1]


def test_an_up_after_the_end_of_a_server_is_counted_anew(store: Store, run_id: str) -> None:
    assert begin(store, run_id, K.UP)
    recovery = begin(store, run_id, K.RECOVER, recovers=newest(store, run_id))
    assert recovery is not None
    finish(store, recovery, OperationState.DONE)

    assert begin(store, run_id, K.UP)
    assert newest(store, run_id).num_tries == 1


def test_runs_that_are_over_cost_a_pass_nothing(store: Store, run_id: str) -> None:
    assert begin(store, run_id, K.UP)
    with store.read() as tx:
        assert operations.list_of_live_runs(tx).keys() == {run_id}
    with store.write() as tx:
        run = runs.get_run(tx, run_id)
        assert run is not None
        done = {"state": RunState.COMPLETED, "teardown": "done", "capture": "done"}
        runs.compare_and_set(tx, run_id, run.version, fence=None, **done)

    with store.read() as tx:
        assert operations.list_of_live_runs(tx) == {}


def test_no_secret_of_an_operation_is_shown() -> None:
    operation = Operation(operation_id="o", kind=K.MAKE, run_id="run-1", attempt=1, cluster="east")

    assert "hunter2" not in repr(replace(operation, secrets={"HF_TOKEN": "hunter2"}))
