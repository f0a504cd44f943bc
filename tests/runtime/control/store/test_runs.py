"""Runs: stored as they were given, changed by compare-and-set, each attempt kept."""

import threading
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DatabaseError

from runtime.control.store import events, leases, runs
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.store.tables import events as events_table
from runtime.control.values import NewRun, Wish
from runtime.errors import ConflictError
from runtime.run_record import ExitDetails
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.store.rows import NEW_RUN, Halfway, add_run, add_user

T0 = datetime(2026, 12, 1, 9, 30, 0, 123456, tzinfo=UTC)


def test_a_run_is_read_as_it_was_stored(store: Store) -> None:
    user = add_user(store)

    stored = add_run(store, user, max_spend_microusd=2**53 + 1)
    with store.read() as tx:
        read = runs.get_run(tx, "run-1")

    assert read == stored
    for field in fields(NewRun):
        if field.name not in {"user_id", "max_spend_microusd"}:
            assert getattr(stored, field.name) == getattr(NEW_RUN, field.name)
    assert stored.max_spend_microusd == 2**53 + 1
    assert (stored.version, stored.wish, stored.deleted_at) == (1, Wish.RUN, None)
    assert stored.created_at <= stored.updated_at


def test_every_changed_field_is_read_back(store: Store) -> None:
    run = add_run(store, add_user(store))
    details = ExitDetails(component="trainer-0", exit_code=1, last_lines=("Traceback", "OOM"))
    changes = {
        "state": RunState.FAILED,
        "reason": "trainer-0 ended with 1",
        "wish": Wish.STOP,
        "teardown": Teardown.STUCK,
        "capture": Capture.INCOMPLETE,
        "exit_details": details,
        "started_at": T0,
        "ended_at": T0 + timedelta(hours=1),
        "cluster": "local",
        "gpu_type": "H200_141GB",
        "queue_number": 2**40,
        "settings": {"cluster": "local"},
        "environments": ("a", "b"),
    }

    with store.write() as tx:
        changed = runs.compare_and_set(tx, run.run_id, run.version, **changes)
    with store.read() as tx:
        read = runs.get_run(tx, run.run_id)

    assert changed is not None
    assert read == changed
    assert {name: getattr(changed, name) for name in changes} == changes
    assert changed.version == 2
    assert changed.is_over


def test_a_write_at_an_old_version_changes_nothing(store: Store) -> None:
    run = add_run(store, add_user(store))
    with store.write() as tx:
        first = runs.compare_and_set(tx, run.run_id, 1, state=RunState.PENDING)

    with store.write() as tx:
        second = runs.compare_and_set(tx, run.run_id, 1, state=RunState.FAILED)

    with store.read() as tx:
        assert runs.get_run(tx, run.run_id) == first
    assert second is None


def test_of_many_writers_at_one_version_one_wins(store: Store) -> None:
    run = add_run(store, add_user(store))
    barrier = threading.Barrier(8)
    won: list[int] = []

    def write(number: int) -> None:
        barrier.wait(60)
        with store.write() as tx:
            if runs.compare_and_set(tx, run.run_id, 1, reason=str(number)):
                won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    with store.read() as tx:
        read = runs.get_run(tx, run.run_id)
    assert read is not None
    assert [read.reason] == [str(number) for number in won]
    assert read.version == 2


def test_a_run_id_is_taken_once(store: Store) -> None:
    user = add_user(store)
    add_run(store, user)

    with pytest.raises(ConflictError, match="run-1"):
        add_run(store, user)


def test_a_fenced_write_needs_the_lease(store: Store) -> None:
    run = add_run(store, add_user(store))
    with store.write() as tx:
        old = leases.acquire(tx, "run/run-1", "first", ttl_s=0)
        new = leases.acquire(tx, "run/run-1", "second", ttl_s=60)
    assert old is not None
    assert new is not None

    with store.write() as tx:
        refused = runs.compare_and_set(tx, run.run_id, 1, fence=old, reason="stale")
        written = runs.compare_and_set(tx, run.run_id, 1, fence=new, reason="fresh")

    assert refused is None
    assert written is not None
    assert written.reason == "fresh"


def test_each_attempt_is_kept(store: Store) -> None:
    run = add_run(store, add_user(store))
    with store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, state=RunState.FAILED, reason="node lost")
        second = runs.compare_and_set(
            tx, run.run_id, 2, attempt=2, state=RunState.QUEUED, reason="resumed"
        )
        assert second is not None
        third = runs.compare_and_set(tx, run.run_id, 3, state=RunState.RUNNING, started_at=T0)

    with store.read() as tx:
        first, current = runs.list_attempts(tx, run.run_id)

    assert (first.attempt, first.state, first.reason) == (1, RunState.FAILED, "node lost")
    assert (current.attempt, current.state, current.started_at) == (2, RunState.RUNNING, T0)
    assert current.created_at == second.updated_at
    assert third is not None


def test_events_are_read_in_order_and_never_changed(store: Store) -> None:
    run = add_run(store, add_user(store))
    with store.write() as tx:
        first = events.add_event(tx, run, "state", state=RunState.QUEUED, message="no headroom")
        second = events.add_event(tx, run, "notice", message="80 % of the balance")

    with store.read() as tx:
        found = events.list_events(tx, run.run_id)
        assert events.list_events(tx, run.run_id, after=first) == found[1:]

    assert [event.event_id for event in found] == [first, second]
    assert [(event.kind, event.state) for event in found] == [
        ("state", RunState.QUEUED),
        ("notice", None),
    ]
    for change in (events_table.update().values(message=""), events_table.delete()):
        with pytest.raises(DatabaseError, match="append-only"), store.write() as tx:
            tx.execute(change)


def test_a_block_that_fails_keeps_nothing(store: Store) -> None:
    run = add_run(store, add_user(store))

    with suppress(Halfway), store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, state=RunState.RUNNING)
        events.add_event(tx, run, "state", state=RunState.RUNNING)
        raise Halfway

    with store.read() as tx:
        assert runs.get_run(tx, run.run_id) == run
        assert events.list_events(tx, run.run_id) == []


def test_the_clock_is_that_of_the_database_in_utc(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)

    with store.read() as tx:
        found = read_clock(tx)

    assert before <= found <= datetime.now(UTC) + timedelta(seconds=1)


def test_an_unknown_field_is_our_own_mistake(sqlite_store: Store) -> None:
    run = add_run(sqlite_store, add_user(sqlite_store))

    with pytest.raises(AssertionError, match="no_such"), sqlite_store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, **{"created_at": T0, "no_such": 1})
    with pytest.raises(AssertionError, match="secret"):
        add_run(sqlite_store, add_user(sqlite_store, "eve"), "run-2", settings={"env": {"A": "b"}})
