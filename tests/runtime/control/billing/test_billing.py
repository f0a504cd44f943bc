"""Debits while runs run: exact to the micro-dollar, and never twice."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest

from runtime.control.billing import Biller, StoredUsage, settle
from runtime.control.metering import close_intervals
from runtime.control.store import runs, usage, wallets
from runtime.control.store.store import Store
from runtime.control.values import Wish
from runtime.errors import StoreError
from runtime.states import RunState
from tests.runtime.control.billing.account import PRICE, Account

DAY = timedelta(days=1)


def test_odd_intervals_are_debited_to_the_microdollar(store: Store) -> None:
    account = Account(store)
    began = account.now - DAY
    lengths = [1, 3_599_999_999, 7, 86_399_999_993]
    for number, length in enumerate(lengths):
        ended = began + timedelta(microseconds=length)
        account.use(began, ended, source=f"pod-{number}", num_gpus=number + 1)
        account.bill()

    exact = sum(
        Fraction((number + 1) * length * PRICE, 3600 * 10**6)
        for number, length in enumerate(lengths)
    )
    assert account.balance == -exact.__floor__()


def test_a_running_run_is_debited_up_to_now_and_later_by_the_difference(store: Store) -> None:
    account = Account(store)
    account.credit(10**9)
    account.use(account.now - timedelta(hours=1))
    account.bill()
    first = 10**9 - account.balance
    account.bill()

    with store.read() as tx:
        entries = wallets.list_entries(tx, account.wallet_id, limit=10)
    assert 2 * PRICE <= first < 2 * PRICE * 2
    assert sum(one.amount_microusd for one in entries) == account.balance
    assert all(one.amount_microusd < 0 for one in entries[:-1])


def test_a_pod_that_ended_before_the_last_debit_gives_money_back(store: Store) -> None:
    account = Account(store)
    account.use(account.now - timedelta(hours=2))
    account.bill()
    account.use(account.now - timedelta(hours=2), account.now - timedelta(hours=1))
    account.bill()

    assert account.balance == -2 * PRICE


def test_pods_that_nobody_saw_end_cost_a_run_that_is_over_up_to_its_end(store: Store) -> None:
    account = Account(store)
    began = account.now - timedelta(hours=99)
    account.use(began)
    ended = began + timedelta(hours=3)
    with store.write() as tx:
        changes = {"state": RunState.FAILED, "ended_at": ended}
        assert runs.compare_and_set(tx, account.run.run_id, account.run.version, **changes)
    account.bill()
    with store.read() as tx:
        run = runs.get_run(tx, account.run.run_id)
    assert run is not None
    silent = account.balance, StoredUsage(store=store, metrics=no_rows).usage(run).cost_microusd
    account.use(began, ended + timedelta(hours=1))  # its cluster answers again
    account.bill()

    assert silent == (-6 * PRICE, 6 * PRICE)
    assert account.balance == -8 * PRICE


def test_two_servers_never_debit_twice(store: Store) -> None:
    account = Account(store)
    account.credit(10**12)
    account.use(account.now - timedelta(hours=3), account.now)
    barrier = threading.Barrier(2)
    failed: list[BaseException] = []

    def serve() -> None:
        biller = Biller(store=store)
        try:
            for _ in range(5):
                barrier.wait(60)
                biller.bill_run(account.run.run_id, account.lease)
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert not failed
    assert account.balance == 10**12 - 6 * PRICE


def test_a_server_that_lost_its_lease_debits_nothing(store: Store) -> None:
    account = Account(store)
    account.use(account.now - DAY, account.now)

    account.bill(replace(account.lease, token=account.lease.token + 1))

    assert account.balance == 0


def test_an_adopted_run_is_metered_and_not_debited(store: Store) -> None:
    account = Account(store, is_adopted=True, max_spend_microusd=1)
    account.use(account.now - DAY)
    account.bill()
    with store.write() as tx:
        settle(tx, account.stored)

    assert account.balance == 0
    assert account.stored.wish is Wish.RUN
    assert StoredUsage(store=store, metrics=no_rows).usage(account.run).cost_microusd > 0


def test_the_end_of_a_run_debits_the_rest(store: Store) -> None:
    account = Account(store)
    account.use(account.now - timedelta(hours=2))
    ended = account.change(state=RunState.COMPLETED, ended_at=account.now - timedelta(hours=1))
    with store.write() as tx:
        close_intervals(tx, ended)

    assert account.balance == -2 * PRICE


def test_what_a_restarted_run_holds_is_debited_until_it_lets_go(store: Store) -> None:
    account = Account(store)
    account.use(account.now - timedelta(hours=1))
    account.change(attempt=2)
    account.bill()

    with store.read() as tx:
        (interval,) = usage.list_intervals(tx, account.run.run_id)
    assert interval.ended_at is None
    assert account.balance < -2 * PRICE


def no_rows(*_: object) -> list[dict[str, float]]:
    return []


def unreadable(*_: object) -> list[dict[str, float]]:
    raise StoreError("the files are away")


@pytest.mark.parametrize(
    ("metrics", "num_tokens"),
    [
        (lambda *_: [{"batch/tokens": 100.0}, {"batch/tokens": float("nan")}, {"x": 1}], 100),
        (lambda *_: [{"batch/tokens": 0.0}], 0),
        (no_rows, None),
        (unreadable, None),
    ],
)
def test_usage_is_of_all_attempts_and_exact(
    sqlite_store: Store, metrics: Callable[..., list[dict[str, float]]], num_tokens: int | None
) -> None:
    account = Account(sqlite_store)
    began = account.now - DAY
    account.use(began, began + timedelta(microseconds=1))
    account.use(began, began + timedelta(hours=1), attempt=2)

    found = StoredUsage(store=sqlite_store, metrics=metrics).usage(account.run)

    assert found.gpu_microseconds == 2 + 2 * 3_600_000_000
    assert found.cost_microusd == 2 * PRICE
    assert found.num_intervals == 2
    assert found.training.input_tokens == num_tokens
    assert found.training.cost_microusd == found.cost_microusd
