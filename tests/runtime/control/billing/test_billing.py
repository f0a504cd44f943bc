"""Debits while runs run: exact, never twice, with notices and ends at their limits."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest

from runtime.control.billing import Biller, StoredUsage, settle
from runtime.control.metering import close_intervals
from runtime.control.store import events, leases, runs, usage, wallets
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.values import (
    EntryKind,
    Event,
    Lease,
    StoredRun,
    UsageInterval,
    Wish,
    wallet_id_of,
)
from runtime.errors import StoreError
from runtime.states import RunState
from tests.runtime.control.store.rows import add_run, add_user

PRICE = 3_141_593
DAY = timedelta(days=1)


class Account:
    """A run of a user, whose intervals and credits a test writes."""

    def __init__(self, store: Store, **fields: object) -> None:
        """Store the run, and hold its shard's lease."""
        self.store = store
        user = add_user(store)
        self.run = add_run(store, user, "run-1", **fields)
        self.wallet_id = wallet_id_of(user.user_id, None)
        with store.write() as tx:
            lease = leases.acquire(tx, "shard/00", "server-1", 600)
            self.now = read_clock(tx)
        assert lease is not None
        self.lease = lease
        self.biller = Biller(store=store)

    def bill(self, lease: Lease | None = None) -> None:
        """Bill the run once."""
        self.biller.bill_run(self.run.run_id, lease or self.lease)

    def use(
        self, started_at: datetime, ended_at: datetime | None = None, **fields: object
    ) -> UsageInterval:
        """Write an interval of two GPUs."""
        interval = UsageInterval(
            run_id=self.run.run_id,
            attempt=1,
            source="pod-0",
            gpu_type="H200_141GB",
            num_gpus=2,
            price_microusd_per_gpu_hour=PRICE,
            started_at=started_at,
            ended_at=ended_at,
        )
        interval = replace(interval, **fields)  # type: ignore[arg-type]  # fields by name
        with self.store.write() as tx:
            usage.put_interval(tx, interval)
        return interval

    def credit(self, microusd: int, key: str = "paid") -> None:
        """Put money into the wallet."""
        movement = wallets.Movement(
            wallet_id=self.wallet_id, key=key, kind=EntryKind.CREDIT, amount_microusd=microusd
        )
        with self.store.write() as tx:
            assert wallets.post(tx, movement)

    def change(self, **changes: object) -> StoredRun:
        """Change the run, as the reconciler would."""
        with self.store.write() as tx:
            run = runs.get_run(tx, self.run.run_id)
            assert run is not None
            changed = runs.compare_and_set(tx, run.run_id, run.version, fence=None, **changes)
        assert changed is not None
        return changed

    @property
    def stored(self) -> StoredRun:
        """Return the run as it is stored."""
        with self.store.read() as tx:
            run = runs.get_run(tx, self.run.run_id)
        assert run is not None
        return run

    @property
    def balance(self) -> int:
        """Return the balance."""
        with self.store.read() as tx:
            return wallets.get_wallet(tx, self.wallet_id).balance_microusd

    def events(self, kind: str) -> list[Event]:
        """Return the run's events of a kind."""
        with self.store.read() as tx:
            return [one for one in events.list_events(tx, self.run.run_id) if one.kind == kind]


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


def test_what_an_earlier_attempt_left_open_ends_as_the_next_began(store: Store) -> None:
    account = Account(store)
    account.use(account.now - timedelta(hours=1))
    account.change(attempt=2)
    account.bill()
    after = account.balance
    account.bill()

    with store.read() as tx:
        (interval,) = usage.list_intervals(tx, account.run.run_id)
        second = runs.list_attempts(tx, account.run.run_id)[1]
    assert interval.ended_at == second.created_at
    assert account.balance == after == -usage.cost_microusd([interval], second.created_at)


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
    account.use(account.now - DAY, price_microusd_per_gpu_hour=0)
    account.bill()

    assert account.stored.wish is Wish.RUN
    with store.read() as tx:
        assert wallets.list_wallets(tx) == []


def no_rows(*_: object) -> list[dict[str, float]]:
    return []


def unreadable(*_: object) -> list[dict[str, float]]:
    raise StoreError("the files are away")


@pytest.mark.parametrize(
    ("metrics", "num_tokens"),
    [
        (lambda *_: [{"batch/tokens": 100.0}, {"batch/tokens": float("nan")}, {"x": 1}], 100),
        (no_rows, 0),
        (unreadable, 0),
    ],
)
def test_usage_is_of_all_attempts_and_exact(
    sqlite_store: Store, metrics: Callable[..., list[dict[str, float]]], num_tokens: int
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
