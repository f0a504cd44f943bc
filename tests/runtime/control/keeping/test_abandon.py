"""`paddock runs abandon`: a run whose cluster never comes back ends in the record."""

from datetime import timedelta

import pytest
from typer.testing import CliRunner, Result

from runtime.cli import app
from runtime.control.store import run_lists
from runtime.control.store.store import Store
from runtime.control.values import Wish
from runtime.errors import NotFoundError, RunStateError
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.billing.account import PRICE, Account


def abandon(store: Store, *words: str, run_id: str = "run-1", said: str | None = None) -> Result:
    """Run the command."""
    url = store.engine.url.render_as_string(hide_password=False)
    arguments = ["runs", "abandon", run_id, "--database", url, *words]
    return CliRunner().invoke(app, arguments, input=said, catch_exceptions=False)


@pytest.fixture
def account(sqlite_store: Store) -> Account:
    """Store a run that has been billed for ten hours of two GPUs."""
    account = Account(sqlite_store, cluster="east")
    with sqlite_store.write() as tx:
        begun = account.now - timedelta(hours=11)
        tx.exec_driver_sql("UPDATE runs SET created_at = created_at - 39600000000")
    account.use(begun + timedelta(hours=1))
    account.change(state=RunState.RUNNING)
    account.bill()
    return account


def test_a_run_on_a_lost_cluster_ends_and_costs_nothing_more(
    sqlite_store: Store, account: Account
) -> None:
    lost = account.now - timedelta(hours=4)

    said = abandon(sqlite_store, "--force", "--lost-at", f"{lost:%Y-%m-%dT%H:%M:%SZ}")

    run = account.stored
    assert said.exit_code == 0
    assert "run-1 is FAILED, capture=incomplete: given up by the administrator" in said.stdout
    assert (run.state, run.teardown, run.capture) == (
        RunState.FAILED,
        Teardown.DONE,
        Capture.INCOMPLETE,
    )
    assert "cluster east is gone" in run.reason
    assert [event.state for event in account.events("state")][-1] is RunState.FAILED
    assert -12 * PRICE - 1 <= account.balance <= -12 * PRICE + 2 * PRICE // 3600 + 1
    with sqlite_store.read() as tx:
        assert run_lists.live_runs(tx) == []
    with pytest.raises(RunStateError, match="there is nothing to give up"):
        abandon(sqlite_store, "--force")


@pytest.mark.parametrize(
    ("wish", "state", "is_deleted"),
    [(Wish.STOP, RunState.STOPPED, False), (Wish.DELETE, RunState.STOPPED, True)],
)
def test_a_wish_that_waited_for_the_cluster_is_done(
    sqlite_store: Store, account: Account, wish: Wish, state: RunState, *, is_deleted: bool
) -> None:
    account.change(wish=wish)

    abandon(sqlite_store, "--force")

    assert (account.stored.state, account.stored.deleted_at is not None) == (state, is_deleted)
    with sqlite_store.read() as tx:
        assert run_lists.live_runs(tx) == []


def test_one_that_is_over_keeps_its_end(sqlite_store: Store, account: Account) -> None:
    ended = account.now - timedelta(hours=2)
    account.change(state=RunState.COMPLETED, reason="all steps", ended_at=ended)

    abandon(sqlite_store, "--force")

    run = account.stored
    assert (run.state, run.reason, run.ended_at) == (RunState.COMPLETED, "all steps", ended)
    assert account.balance == -16 * PRICE


def test_nothing_is_done_without_a_yes_or_for_an_impossible_time(
    sqlite_store: Store, account: Account
) -> None:
    before = account.stored

    assert abandon(sqlite_store, said="n\n").exit_code != 0
    with pytest.raises(RunStateError, match="when it last began, and now: change --lost-at"):
        abandon(sqlite_store, "--force", "--lost-at", "2020-01-01")
    with pytest.raises(NotFoundError, match="no run run-2"):
        abandon(sqlite_store, "--force", run_id="run-2")

    assert account.stored == before
