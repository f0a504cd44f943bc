"""Lists of runs: who sees which, pages, filters, and how long 10,000 runs take."""

import time
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from runtime.control.store import run_lists, runs
from runtime.control.store.run_lists import RunFilter, RunPage
from runtime.control.store.store import Store
from runtime.control.store.tables import runs as runs_table
from runtime.control.values import User, Wish
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.store.rows import add_run, add_team, add_user

NUM_MANY = 10_000
MAX_LIST_S = 0.5
"""A page without its index takes longer; measured with it: 2 to 6 ms. `bench.lists` holds p99."""


def page(store: Store, *, limit: int = 100, offset: int = 0, **wanted: object) -> RunPage:
    with store.read() as tx:
        filled = RunFilter(**wanted)  # type: ignore[arg-type]  # fields by name
        return run_lists.list_runs(tx, filled, limit=limit, offset=offset)


def ids(found: RunPage) -> set[str]:
    return {run.run_id for run in found.runs}


def test_a_user_sees_own_runs_and_those_of_own_teams(store: Store) -> None:
    ada, bob, eve = (add_user(store, name) for name in ("ada", "bob", "eve"))
    root = add_user(store, "root", is_admin=True)
    team = add_team(store, "lab", ada, bob)
    other = add_team(store, "else", eve)
    add_run(store, ada, "ada-own")
    add_run(store, ada, "ada-lab", team_id=team.team_id)
    add_run(store, bob, "bob-lab", team_id=team.team_id)
    add_run(store, eve, "eve-else", team_id=other.team_id)
    expected = {
        ada: {"ada-own", "ada-lab", "bob-lab"},
        bob: {"ada-lab", "bob-lab"},
        eve: {"eve-else"},
        root: {"ada-own", "ada-lab", "bob-lab", "eve-else"},
    }

    for user, visible in expected.items():
        found = page(store, visible_to=user)

        assert ids(found) == visible
        assert found.total == len(visible)
        with store.read() as tx:
            shown = {
                run_id
                for run_id in expected[root]
                if run_lists.visible_run(tx, user, run_id) is not None
            }
        assert shown == visible


def test_a_filter_never_widens_what_is_visible(store: Store) -> None:
    ada, eve = add_user(store, "ada"), add_user(store, "eve")
    team = add_team(store, "lab", ada)
    add_run(store, ada, "ada-lab", team_id=team.team_id)

    assert page(store, visible_to=eve, team_id=team.team_id).total == 0
    assert page(store, visible_to=eve, user_id=ada.user_id).total == 0
    assert page(store, visible_to=ada, team_id=team.team_id).total == 1


def test_filters_are_combined(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    add_run(store, ada, "one", state=RunState.RUNNING, cluster="a")
    add_run(store, ada, "two", state=RunState.QUEUED, cluster="a")
    add_run(store, bob, "three", state=RunState.RUNNING, cluster="b")

    assert ids(page(store, user_id=ada.user_id)) == {"one", "two"}
    assert ids(page(store, states=frozenset({RunState.RUNNING}))) == {"one", "three"}
    assert ids(page(store, states=frozenset({RunState.RUNNING}), cluster="a")) == {"one"}
    assert page(store, states=frozenset()).total == 0


def test_pages_hold_every_run_once_the_newest_first(store: Store) -> None:
    ada = add_user(store)
    for number in range(7):
        add_run(store, ada, f"run-{number}")

    pages = [page(store, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    listed = [run for found in pages for run in found.runs]

    assert [len(found.runs) for found in pages] == [3, 3, 1, 0]
    assert {found.total for found in pages} == {7}
    assert {run.run_id for run in listed} == {f"run-{number}" for number in range(7)}
    key = [(run.created_at, run.run_id) for run in listed]
    assert key == sorted(key, reverse=True)


def test_a_deleted_run_is_in_no_list(store: Store) -> None:
    ada = add_user(store)
    run = add_run(store, ada)
    with store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, deleted_at=run.created_at)

    with store.read() as tx:
        assert run_lists.visible_run(tx, ada, run.run_id) is None
        assert run_lists.live_runs(tx) == []
        assert runs.get_run(tx, run.run_id) is not None
    assert page(store, visible_to=ada).total == 0


@pytest.mark.parametrize(
    ("state", "teardown", "capture", "wish", "is_live"),
    [
        (RunState.QUEUED, Teardown.NONE, Capture.NONE, Wish.RUN, True),
        (RunState.PAUSED, Teardown.DONE, Capture.DONE, Wish.PAUSE, True),
        (RunState.COMPLETED, Teardown.NONE, Capture.DONE, Wish.RUN, True),
        (RunState.COMPLETED, Teardown.DONE, Capture.RUNNING, Wish.RUN, True),
        (RunState.FAILED, Teardown.STUCK, Capture.DONE, Wish.RUN, True),
        (RunState.FAILED, Teardown.UNREACHABLE, Capture.INCOMPLETE, Wish.RUN, True),
        (RunState.STOPPED, Teardown.DONE, Capture.DONE, Wish.DELETE, True),
        (RunState.STOPPED, Teardown.DONE, Capture.DONE, Wish.STOP, False),
        (RunState.COMPLETED, Teardown.DONE, Capture.INCOMPLETE, Wish.RUN, False),
    ],
)
def test_a_run_is_live_until_nothing_is_left_to_do(
    sqlite_store: Store,
    state: RunState,
    teardown: Teardown,
    capture: Capture,
    wish: Wish,
    is_live: bool,
) -> None:
    run = add_run(sqlite_store, add_user(sqlite_store))
    with sqlite_store.write() as tx:
        runs.compare_and_set(
            tx, run.run_id, 1, state=state, teardown=teardown, capture=capture, wish=wish
        )

    with sqlite_store.read() as tx:
        assert bool(run_lists.live_runs(tx)) is is_live


def test_a_list_of_ten_thousand_runs_is_quick(store: Store) -> None:
    users = [add_user(store, f"user-{number}") for number in range(4)]
    team = add_team(store, "lab", *users[:2])
    add_many_runs(store, users, team.team_id)
    wanted = [
        RunFilter(visible_to=replace(users[3], is_admin=True)),
        RunFilter(visible_to=users[0]),
        RunFilter(visible_to=users[3]),
        RunFilter(visible_to=users[0], team_id=team.team_id),
        RunFilter(visible_to=users[0], states=frozenset({RunState.RUNNING})),
    ]

    taken_s = {}
    for number, each in enumerate(wanted):
        taken_s[number] = min(timed(store, each, offset) for offset in (0, 1000) * 8)

    assert max(taken_s.values()) < MAX_LIST_S, taken_s
    started = time.monotonic()
    with store.read() as tx:
        num_live = len(run_lists.live_runs(tx))
    assert num_live == NUM_MANY // 100
    assert time.monotonic() - started < 5.0


def timed(store: Store, wanted: RunFilter, offset: int) -> float:
    started = time.monotonic()
    with store.read() as tx:
        run_lists.list_runs(tx, wanted, limit=20, offset=offset)
    return time.monotonic() - started


def add_many_runs(store: Store, users: list[User], team_id: str) -> None:
    """Store many runs that are over but for one in a hundred, with texts of a usual length."""
    first = add_run(store, users[0], "first")
    row = {**asdict(first), "config_text": "x" * 3000, "plan_json": "x" * 10_000}
    many = [
        {
            **row,
            "run_id": f"run-{number}",
            "user_id": users[number % len(users)].user_id,
            "team_id": team_id if number % 3 == 0 else None,
            "created_at": first.created_at + timedelta(seconds=number),
            "state": RunState.RUNNING if number % 100 == 1 else RunState.COMPLETED,
            "teardown": Teardown.DONE,
            "capture": Capture.DONE,
        }
        for number in range(1, NUM_MANY)
    ]
    with store.write() as tx:
        tx.execute(runs_table.insert(), many)
        runs.compare_and_set(
            tx,
            "first",
            1,
            state=RunState.FAILED,
            teardown=Teardown.DONE,
            capture=Capture.INCOMPLETE,
        )
