"""Usage and wallets: exact sums, and no debit that is written twice."""

import random
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import DatabaseError

from runtime.control.store import usage, wallets
from runtime.control.store.store import Store
from runtime.control.store.tables import ledger
from runtime.control.store.wallets import Movement
from runtime.control.values import EntryKind, UsageInterval, Wallet, wallet_id_of
from tests.runtime.control.store.rows import add_run, add_team, add_user

T0 = datetime(2026, 12, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
INTERVAL = UsageInterval(
    run_id="run-1",
    attempt=1,
    source="trainer-0",
    gpu_type="H200_141GB",
    num_gpus=8,
    price_microusd_per_gpu_hour=3_200_000,
    started_at=T0,
)


def credit(amount_microusd: int, key: str = "paid", wallet_id: str = "user/ada") -> Movement:
    return Movement(
        wallet_id=wallet_id, key=key, kind=EntryKind.CREDIT, amount_microusd=amount_microusd
    )


def test_an_interval_is_opened_once_and_closed_later(store: Store) -> None:
    add_run(store, add_user(store))
    closed = replace(INTERVAL, ended_at=T0 + HOUR)
    other = replace(INTERVAL, source="inference-0", started_at=T0 + HOUR)
    with store.write() as tx:
        usage.put_interval(tx, INTERVAL)
        usage.put_interval(tx, other)
        usage.put_interval(tx, replace(closed, price_microusd_per_gpu_hour=1))

    with store.read() as tx:
        assert usage.list_intervals(tx, "run-1") == [closed, other]


def test_an_hour_of_eight_gpus_costs_eight_times_the_price() -> None:
    closed = replace(INTERVAL, ended_at=T0 + HOUR)

    assert usage.cost_microusd([closed], T0 + 5 * HOUR) == 25_600_000
    assert usage.cost_microusd([INTERVAL], T0 + HOUR / 2) == 12_800_000
    assert usage.cost_microusd([closed], T0 + HOUR / 2) == 12_800_000
    assert usage.cost_microusd([INTERVAL], T0 - HOUR) == 0
    assert usage.gpu_microseconds(closed, T0 + HOUR) == 8 * 3_600_000_000


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(
        st.tuples(
            st.integers(0, 64), st.integers(0, 10**7), st.integers(0, 10**12), st.integers(0, 10**9)
        ),
        max_size=8,
    )
)
def test_a_cost_is_the_exact_sum_rounded_down_once(rows: list[tuple[int, int, int, int]]) -> None:
    intervals = [
        replace(
            INTERVAL,
            source=str(number),
            num_gpus=num_gpus,
            price_microusd_per_gpu_hour=price,
            started_at=T0 + timedelta(microseconds=start),
            ended_at=T0 + timedelta(microseconds=start + length),
        )
        for number, (num_gpus, price, length, start) in enumerate(rows)
    ]
    exact = sum(Fraction(gpus * price * length, 3600 * 10**6) for gpus, price, length, _ in rows)

    assert usage.cost_microusd(intervals, T0 + timedelta(days=10_000)) == exact.__floor__()


def test_a_wallet_that_nobody_used_is_empty(store: Store) -> None:
    with store.read() as tx:
        assert wallets.get_wallet(tx, "user/ada") == Wallet(wallet_id="user/ada")
        assert wallets.list_wallets(tx) == []


def test_an_entry_is_written_once(store: Store) -> None:
    with store.write() as tx:
        first = wallets.post(tx, credit(10_000_000))
        again = wallets.post(tx, credit(10_000_000))

    with store.read() as tx:
        (entry,) = wallets.list_entries(tx, "user/ada", limit=10)
        assert wallets.get_wallet(tx, "user/ada").balance_microusd == 10_000_000
    assert (first, again) == (True, False)
    assert (entry.key, entry.kind, entry.amount_microusd) == ("paid", EntryKind.CREDIT, 10_000_000)


def test_the_balance_is_the_sum_of_the_entries(store: Store) -> None:
    numbers = random.Random(0)
    amounts = [numbers.randint(-(10**12), 10**12) for _ in range(60)]

    def move(part: list[tuple[int, int]]) -> None:
        for number, amount in part:
            with store.write() as tx:
                wallets.post(tx, credit(amount, key=f"key-{number}"))

    numbered = list(enumerate(amounts))
    # each entry is sent by two threads
    parts = [numbered[0::2], numbered[1::2], numbered[0::3], numbered[1::3], numbered[2::3]]
    threads = [threading.Thread(target=move, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    with store.read() as tx:
        entries = wallets.list_entries(tx, "user/ada", limit=100)
        balance = wallets.get_wallet(tx, "user/ada").balance_microusd
    assert balance == sum(amounts) == sum(entry.amount_microusd for entry in entries)


def test_a_run_is_charged_what_it_cost_and_no_more(store: Store) -> None:
    ada = add_user(store)
    run = add_run(store, ada)
    wallet_id = wallet_id_of(ada.user_id, None)
    with store.write() as tx:
        charged = [wallets.charge_run(tx, run, total) for total in (5, 5, 12, 9, 12)]

    with store.read() as tx:
        assert wallets.charged_microusd(tx, run.run_id) == 12
        assert wallets.get_wallet(tx, wallet_id).balance_microusd == -12
    assert charged == [5, 0, 7, -3, 3]


def test_a_run_of_a_team_is_charged_to_the_team(store: Store) -> None:
    ada = add_user(store)
    team = add_team(store, "lab", ada)
    run = add_run(store, ada, team_id=team.team_id)
    with store.write() as tx:
        wallets.charge_run(tx, run, 7)

    with store.read() as tx:
        (wallet,) = wallets.list_wallets(tx)
    assert wallet.wallet_id == f"team/{team.team_id}"
    assert wallet.balance_microusd == -7


def test_servers_that_charge_at_once_charge_once(store: Store) -> None:
    run = add_run(store, add_user(store))
    barrier = threading.Barrier(6)

    def charge() -> None:
        for total in range(10, 60, 10):
            barrier.wait(60)
            with store.write() as tx:
                wallets.charge_run(tx, run, total)

    threads = [threading.Thread(target=charge) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    with store.read() as tx:
        entries = wallets.list_entries(tx, wallet_id_of(run.user_id, None), limit=100)
        assert wallets.charged_microusd(tx, run.run_id) == 50
        assert wallets.list_wallets(tx)[0].balance_microusd == -50
    assert sorted(-entry.amount_microusd for entry in entries) == [10] * 5


def test_entries_come_in_pages_the_newest_first(store: Store) -> None:
    with store.write() as tx:
        for number in range(5):
            wallets.post(tx, credit(number, key=f"key-{number}"))

    with store.read() as tx:
        first = wallets.list_entries(tx, "user/ada", limit=3)
        rest = wallets.list_entries(tx, "user/ada", limit=3, before=first[-1].entry_id)

    assert [entry.amount_microusd for entry in first + rest] == [4, 3, 2, 1, 0]


def test_no_entry_is_ever_changed(store: Store) -> None:
    with store.write() as tx:
        wallets.post(tx, credit(1))

    for change in (ledger.update().values(amount_microusd=0), ledger.delete()):
        with pytest.raises(DatabaseError, match="append-only"), store.write() as tx:
            tx.execute(change)


def test_limits_of_a_wallet_are_set_one_by_one(store: Store) -> None:
    with store.write() as tx:
        wallets.set_limits(tx, "user/ada", max_gpus_per_run=8)
        wallets.set_limits(tx, "user/ada", is_on_demand_enabled=False)
        limited = wallets.get_wallet(tx, "user/ada")
        wallets.set_limits(tx, "user/ada", max_gpus_per_run=0)
        lifted = wallets.get_wallet(tx, "user/ada")

    assert (limited.is_on_demand_enabled, limited.max_gpus_per_run) == (False, 8)
    assert (lifted.is_on_demand_enabled, lifted.max_gpus_per_run) == (False, None)
