"""Notices and ends at limits: once, whoever serves, and with a last checkpoint."""

import threading
from datetime import timedelta

import pytest

from runtime.control.billing import Biller
from runtime.control.store import events, wallets
from runtime.control.store.store import Store
from runtime.control.values import Wish
from runtime.states import RunState
from tests.runtime.control.billing.account import PRICE, Account


def test_a_notice_at_80_percent_of_the_ceiling_is_given_once(store: Store) -> None:
    account = Account(store, max_spend_microusd=100 * PRICE)
    account.credit(10**12)
    account.use(account.now - timedelta(hours=42))
    for _ in range(3):
        account.bill()
        account.biller = Biller(store=store)  # another server

    (notice,) = account.events("notice-ceiling")
    assert "of its ceiling of $314.15" in notice.message
    assert account.stored.wish is Wish.RUN


def test_a_notice_of_the_wallet_is_given_once_a_credit(store: Store) -> None:
    account = Account(store)
    account.credit(50 * PRICE, "first")
    account.use(account.now - timedelta(hours=22))
    account.bill()
    account.bill()
    assert len(account.events("notice-wallet")) == 1

    account.credit(50 * PRICE, "second")
    account.bill()
    assert len(account.events("notice-wallet")) == 1  # most of it is there
    account.use(account.now - timedelta(hours=46))
    account.bill()
    account.bill()

    assert len(account.events("notice-wallet")) == 2
    assert account.stored.wish is Wish.RUN


def test_notices_of_two_servers_at_once_are_one(store: Store) -> None:
    account = Account(store)
    barrier = threading.Barrier(3)

    def note() -> None:
        barrier.wait(60)
        with store.write() as tx:
            events.add_event_once(tx, account.run, "notice-wallet", message="low")

    threads = [threading.Thread(target=note) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert len(account.events("notice-wallet")) == 1


@pytest.mark.parametrize("limit", ["ceiling", "wallet"])
def test_a_limit_ends_a_running_run_after_a_last_checkpoint(store: Store, limit: str) -> None:
    ceiling = 2 * PRICE if limit == "ceiling" else None
    account = Account(store, plan_json="{}", max_spend_microusd=ceiling)
    account.credit(10**12 if limit == "ceiling" else PRICE)
    account.change(state=RunState.RUNNING)
    account.use(account.now - timedelta(hours=5))
    account.bill()
    paused = account.stored
    account.bill()
    assert account.stored == paused

    account.use(account.now - timedelta(hours=5), account.now)
    account.change(state=RunState.PAUSED)
    account.bill()

    stopped = account.stored
    assert (paused.wish, stopped.wish) == (Wish.PAUSE, Wish.STOP)
    assert limit in paused.wish_reason
    assert stopped.wish_reason == paused.wish_reason
    assert len(account.events("wish")) == 2


def test_a_run_that_starts_is_stopped_at_once(store: Store) -> None:
    account = Account(store)
    account.change(state=RunState.PULLING_IMAGE)
    account.use(account.now - timedelta(hours=1))
    account.bill()

    assert account.stored.wish is Wish.STOP
    assert "wallet is empty" in account.stored.wish_reason


def test_a_pause_by_its_owner_stays_a_pause_however_empty_the_wallet_is(store: Store) -> None:
    account = Account(store)
    account.change(state=RunState.PAUSED, wish=Wish.PAUSE)
    account.use(account.now - timedelta(hours=1), account.now)
    account.bill()

    assert account.stored.wish is Wish.PAUSE


def test_what_costs_nothing_needs_no_money(store: Store) -> None:
    account = Account(store)
    account.change(state=RunState.RUNNING)
    account.use(account.now - timedelta(days=1), price_microusd_per_gpu_hour=0)
    account.bill()

    assert account.stored.wish is Wish.RUN
    with store.read() as tx:
        assert wallets.list_wallets(tx) == []
