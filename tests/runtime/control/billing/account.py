"""A run with a wallet, an interval and a lease, for tests of billing."""

from dataclasses import replace
from datetime import datetime

from runtime.control.billing import Biller
from runtime.control.store import events, leases, runs, usage, wallets
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.values import (
    EntryKind,
    Event,
    Lease,
    StoredRun,
    UsageInterval,
    wallet_id_of,
)
from tests.runtime.control.store.rows import add_run, add_user

PRICE = 3_141_593


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
