"""Wallets and their ledger: a balance is always the sum of its entries.

The ledger only grows; the database refuses to change it. Every entry has a key that is taken once,
so that a credit or a debit that is tried again, or by two servers, is written once.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from runtime.control.store.columns import insert, insert_new, now
from runtime.control.store.tables import ledger, wallets
from runtime.control.values import EntryKind, LedgerEntry, StoredRun, Wallet, wallet_id_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Movement:
    """Money to be moved: positive into the wallet, negative out of it."""

    wallet_id: str
    key: str
    kind: EntryKind
    amount_microusd: int
    run_id: str | None = None
    note: str = ""


def get_wallet(connection: Connection, wallet_id: str) -> Wallet:
    """Return a wallet; one that nobody has used yet is empty."""
    query = select(wallets).where(wallets.c.wallet_id == wallet_id)
    row = connection.execute(query).mappings().first()
    return Wallet(**row) if row else Wallet(wallet_id=wallet_id)


def list_wallets(connection: Connection) -> list[Wallet]:
    """Return the wallets that were used."""
    rows = connection.execute(select(wallets).order_by(wallets.c.wallet_id)).mappings()
    return [Wallet(**row) for row in rows]


def set_limits(
    connection: Connection,
    wallet_id: str,
    *,
    is_on_demand_enabled: bool | None = None,
    max_gpus_per_run: int | None = None,
) -> None:
    """Set what a wallet may be spent on; None leaves a limit as it is, 0 GPUs lifts the cap."""
    _make(connection, wallet_id)
    changes: dict[str, object] = {}
    if is_on_demand_enabled is not None:
        changes["is_on_demand_enabled"] = is_on_demand_enabled
    if max_gpus_per_run is not None:
        changes["max_gpus_per_run"] = max_gpus_per_run or None
    if changes:
        is_it = wallets.c.wallet_id == wallet_id
        connection.execute(wallets.update().where(is_it).values(**changes))


def post(connection: Connection, movement: Movement) -> bool:
    """Write an entry and move the balance; False, with nothing done, where its key is taken."""
    _make(connection, movement.wallet_id)
    row = insert(connection, ledger).values(
        wallet_id=movement.wallet_id,
        key=movement.key,
        kind=movement.kind,
        amount_microusd=movement.amount_microusd,
        run_id=movement.run_id,
        note=movement.note,
        time=now(),
    )
    if not insert_new(connection, row):
        return False
    balance = wallets.c.balance_microusd + movement.amount_microusd
    is_it = wallets.c.wallet_id == movement.wallet_id
    connection.execute(wallets.update().where(is_it).values(balance_microusd=balance))
    return True


def charge_run(connection: Connection, run: StoredRun, total_microusd: int) -> int:
    """Debit what a run has cost in all less what was debited before, and return that difference.

    Of two servers that charge at once one moves nothing. A total that has come down (a pod ended
    earlier than it seemed) gives money back.
    """
    query = select(func.count(), func.coalesce(func.sum(ledger.c.amount_microusd), 0))
    of_run = (ledger.c.run_id == run.run_id) & (ledger.c.kind == EntryKind.DEBIT)
    num_entries, moved = connection.execute(query.where(of_run)).one()
    due = total_microusd + int(moved)
    if due == 0:
        return 0
    # the number of debits before: whoever has counted the same ones takes the same key
    movement = Movement(
        wallet_id=wallet_id_of(run.user_id, run.team_id),
        key=f"run/{run.run_id}/{num_entries}",
        kind=EntryKind.DEBIT,
        amount_microusd=-due,
        run_id=run.run_id,
    )
    return due if post(connection, movement) else 0


def charged_microusd(connection: Connection, run_id: str) -> int:
    """Return what was debited for a run so far."""
    of_run = (ledger.c.run_id == run_id) & (ledger.c.kind == EntryKind.DEBIT)
    query = select(func.coalesce(func.sum(ledger.c.amount_microusd), 0)).where(of_run)
    return -int(connection.execute(query).scalar_one())


@dataclass(frozen=True, kw_only=True, slots=True)
class LastCredit:
    """The newest credit of a wallet."""

    entry_id: int
    time: datetime


def last_credit(connection: Connection, wallet_id: str) -> LastCredit | None:
    """Return the newest entry that put money into a wallet, corrections left out."""
    query = select(ledger.c.entry_id, ledger.c.time).where(
        ledger.c.wallet_id == wallet_id,
        ledger.c.kind == EntryKind.CREDIT,
        ledger.c.amount_microusd > 0,
    )
    row = connection.execute(query.order_by(ledger.c.entry_id.desc()).limit(1)).mappings().first()
    return LastCredit(**row) if row else None


def balance_at(connection: Connection, wallet_id: str, entry_id: int) -> int:
    """Return what a wallet held right after an entry."""
    query = select(func.coalesce(func.sum(ledger.c.amount_microusd), 0)).where(
        ledger.c.wallet_id == wallet_id, ledger.c.entry_id <= entry_id
    )
    return int(connection.execute(query).scalar_one())


def list_entries(
    connection: Connection, wallet_id: str, *, limit: int, before: int | None = None
) -> list[LedgerEntry]:
    """Return entries of a wallet, the newest first, with ids under `before` where it is given."""
    query = select(ledger).where(ledger.c.wallet_id == wallet_id)
    if before is not None:
        query = query.where(ledger.c.entry_id < before)
    rows = connection.execute(query.order_by(ledger.c.entry_id.desc()).limit(limit)).mappings()
    return [LedgerEntry(**row) for row in rows]


def _make(connection: Connection, wallet_id: str) -> None:
    row = insert(connection, wallets).values(
        wallet_id=wallet_id, balance_microusd=0, is_on_demand_enabled=True
    )
    insert_new(connection, row)
