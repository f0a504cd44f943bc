"""Bills over the passes of a server: each run in time, never all at once."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from runtime.control.billing import Biller
from runtime.control.lease_keeper import LeaseKeeper, shard_of
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun
from runtime.errors import StoreError
from runtime.states import RunState
from tests.runtime.control.store.rows import add_run, add_user

Bill = Callable[[Biller, str, Lease], None]


def copies(store: Store, number: int, **changes: object) -> list[StoredRun]:
    """Return runs as a pass loads them."""
    run = replace(add_run(store, add_user(store)), state=RunState.RUNNING)
    return [replace(run, run_id=f"run-{one}", **changes) for one in range(number)]


def pass_for(
    store: Store, found: list[StoredRun], monkeypatch: pytest.MonkeyPatch, bill: Bill
) -> None:
    """Make a pass a second for a minute, with a clock that the test moves."""
    monkeypatch.setattr(Biller, "bill_run", bill)
    seconds = [0.0]
    with LeaseKeeper(store, "server-1") as keeper:
        biller = Biller(store=store, clock=lambda: seconds[0])
        for second in range(60):
            seconds[0] = float(second)
            biller.bill(found, keeper)


def test_every_run_is_billed_in_time_and_no_pass_bills_them_all(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: dict[str, list[float]] = {}
    in_pass: Counter[float] = Counter()

    def note(biller: Biller, run_id: str, fence: Lease) -> None:
        assert fence.name == shard_of(run_id)
        times.setdefault(run_id, []).append(biller.clock())
        in_pass[biller.clock()] += 1

    pass_for(sqlite_store, copies(sqlite_store, 200), monkeypatch, note)

    assert len(times) == 200
    for found in times.values():
        gaps = [b - a for a, b in zip([0.0, *found], [*found, 60.0], strict=True)]
        assert max(gaps) <= 30
    assert max(in_pass.values()) <= 40


def test_what_cannot_cost_anything_is_not_looked_at(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    billed: list[str] = []
    (queued, adopted, again) = copies(sqlite_store, 3)
    found = [
        replace(queued, state=RunState.QUEUED),
        replace(adopted, is_adopted=True),
        replace(again, state=RunState.QUEUED, attempt=2),
    ]

    pass_for(sqlite_store, found, monkeypatch, lambda biller, run_id, fence: billed.append(run_id))

    assert set(billed) == {again.run_id}


def test_a_run_that_cannot_be_billed_holds_up_no_other(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    billed: set[str] = set()

    def fail(biller: Biller, run_id: str, fence: Lease) -> None:
        if run_id == "run-0":
            raise StoreError("its wallet is locked")
        billed.add(run_id)

    pass_for(sqlite_store, copies(sqlite_store, 5), monkeypatch, fail)

    assert billed == {"run-1", "run-2", "run-3", "run-4"}
