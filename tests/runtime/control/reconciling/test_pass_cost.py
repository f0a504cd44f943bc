"""What a pass asks of the database does not grow with the runs that run, nor with those stored."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from bench.reconciler import IdleOperator, RunningPlaces, fill
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.reconciler import Reconciler
from runtime.control.store.store import Store


@contextmanager
def counted(store: Store) -> Iterator[list[str]]:
    """Collect the statements that are executed, but those of the thread that renews leases."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "leases" not in statement:
            said.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


@pytest.mark.parametrize(("num_live", "num_stored"), [(5, 0), (40, 0), (5, 200)])
def test_a_pass_over_runs_that_run_asks_the_same_few_things(
    sqlite_store: Store, num_live: int, num_stored: int
) -> None:
    fill(sqlite_store, num_live, num_stored)
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        reconciler = Reconciler(
            store=sqlite_store, places=RunningPlaces(), operator=IdleOperator(), keeper=keeper
        )
        reconciler._biller.clock = lambda: 0.0  # bills are spread over 20 s, and one may be due
        for _ in range(2):  # the first one meters
            reconciler.make_pass()
        with counted(sqlite_store) as said:
            reconciler.make_pass()
        num_runs = reconciler.num_runs
        reconciler.close()

    assert num_runs == num_live
    assert 0 < len(said) < 15, said  # five, and some more where adoption comes round
