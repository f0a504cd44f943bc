"""Billing: debits what runs cost while they run, gives notice, ends runs at their limits.

The reconciler calls `Biller.bill` in every pass with the runs of its shards. Costs come from usage
intervals (`runtime.control.metering`); a debit is what a run has cost in all less what was debited,
so one that is missed is in the next. Also answers what a run has used.
"""

import logging
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from runtime.control.lease_keeper import LeaseKeeper, shard_of
from runtime.control.notices import notice_kind
from runtime.control.planned import writes_checkpoints
from runtime.control.readings import TokenCount, Usage
from runtime.control.requests import StepRange
from runtime.control.spending import Funds, Halt, Limit, Notice, judge, wish_at
from runtime.control.store import events, leases, runs, usage, wallets
from runtime.control.store.columns import EPOCH, read_clock
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun, UsageInterval, Wish, wallet_id_of
from runtime.errors import PaddockError
from runtime.states import RunState

BILL_S = 20.0
"""How often runs are debited; a bill is promised at least every 30 s."""

_TRAINED_TOKENS = "batch/tokens"
_MAX_TOKENS = 10**15
_LOG = logging.getLogger(__name__)

Metrics = Callable[[StoredRun, StepRange], Sequence[Mapping[str, JsonValue]]]


@dataclass(kw_only=True, slots=True)
class Biller:
    """Bills runs, each once in BILL_S, spread over the passes so that none is held up.

    What it remembers can be found out again: when a run is due, what a wallet held at its credit.
    """

    store: Store
    clock: Callable[[], float] = time.monotonic
    _due: dict[str, float] = field(default_factory=dict)
    _granted: dict[str, tuple[int, int]] = field(default_factory=dict)

    def bill(self, live: Sequence[StoredRun], keeper: LeaseKeeper) -> None:
        """Bill the runs that are due, of the live runs of the shards that a server holds."""
        now = self.clock()
        self._due = {
            run.run_id: self._due.get(run.run_id, now + _spread_s(run.run_id))
            for run in live
            if _is_billed(run)
        }
        for run in live:
            if self._due.get(run.run_id, math.inf) > now:
                continue
            fence = keeper.lease(shard_of(run.run_id))
            if fence is None:
                continue
            self._due[run.run_id] = now + BILL_S
            try:
                self.bill_run(run.run_id, fence)
            except (PaddockError, DBAPIError) as error:  # one run's trouble is not the others'
                _LOG.warning("%s is not billed: %s", run.run_id, error, extra={"run": run.run_id})

    def bill_run(self, run_id: str, fence: Lease) -> None:
        """Debit a run and judge its limits, unless somebody else has taken its lease."""
        with self.store.write() as tx:
            if not leases.is_held(tx, fence):
                return
            run = runs.get_run(tx, run_id, locks=True)
            if run is None or run.is_adopted:
                return
            # a restart's earlier attempt holds its GPUs until the next one's workloads are there
            intervals = usage.list_intervals(tx, run.run_id)
            if not intervals:
                return
            cost = usage.cost_microusd(intervals, read_clock(tx), ended_at=run.ended_at)
            wallets.charge_run(tx, run, cost)
            if any(_is_costing(interval) for interval in intervals):
                self._judge(tx, run, cost)
            elif run.state is RunState.PAUSED:
                _end_after_pause(tx, run)

    def _judge(self, connection: Connection, run: StoredRun, cost: int) -> None:
        wallet_id = wallet_id_of(run.user_id, run.team_id)
        credit = wallets.last_credit(connection, wallet_id)
        funds = Funds(
            cost_microusd=cost,
            ceiling_microusd=run.max_spend_microusd,
            balance_microusd=wallets.get_wallet(connection, wallet_id).balance_microusd,
            granted_microusd=self._granted_by(connection, wallet_id, credit),
        )
        for found in judge(funds):
            if isinstance(found, Notice):
                is_wallet = found.limit is Limit.WALLET and credit is not None
                since = credit.time if is_wallet and credit is not None else EPOCH
                kind = notice_kind(found.limit)
                events.add_event_once(connection, run, kind, message=found.message, since=since)
            elif _halt(connection, run, found):
                return

    def _granted_by(
        self, connection: Connection, wallet_id: str, credit: wallets.LastCredit | None
    ) -> int:
        """Return what a wallet held after its last credit; the ledger before it never changes."""
        if credit is None:
            return 0
        known = self._granted.get(wallet_id)
        if known is None or known[0] != credit.entry_id:
            held = wallets.balance_at(connection, wallet_id, credit.entry_id)
            known = self._granted[wallet_id] = (credit.entry_id, held)
        return known[1]


def settle(connection: Connection, run: StoredRun) -> None:
    """Debit the rest of what a run has cost, once its intervals are closed."""
    if run.is_adopted:
        return
    intervals = usage.list_intervals(connection, run.run_id)
    if intervals:
        wallets.charge_run(connection, run, usage.cost_microusd(intervals, read_clock(connection)))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredUsage:
    """Answers what runs have used; `metrics` reads the rows that count trained tokens."""

    store: Store
    metrics: Metrics

    def usage(self, run: StoredRun) -> Usage:
        """Return what a run has used and cost up to now, of all its attempts."""
        with self.store.read() as tx:
            intervals = usage.list_intervals(tx, run.run_id)
            now = read_clock(tx)
        cost = usage.cost_microusd(intervals, now, ended_at=run.ended_at)
        tokens = self._num_trained_tokens(run)
        return Usage(
            # GPU time has no price a token: all of it is training's, so that the rows add up
            training=TokenCount(input_tokens=tokens, cost_microusd=cost),
            gpu_microseconds=sum(
                usage.gpu_microseconds(one, now, ended_at=run.ended_at) for one in intervals
            ),
            cost_microusd=cost,
            num_intervals=len(intervals),
        )

    def _num_trained_tokens(self, run: StoredRun) -> int | None:
        try:
            rows = self.metrics(run, StepRange())
        except PaddockError as error:  # the cost is known even where the run's files are not
            _LOG.info(
                "%s: its tokens are not known: %s", run.run_id, error, extra={"run": run.run_id}
            )
            return None
        numbers = [row.get(_TRAINED_TOKENS) for row in rows]
        counts = [int(n) for n in numbers if isinstance(n, int | float) and 0 <= n < _MAX_TOKENS]
        return sum(counts) if counts else None


def _is_billed(run: StoredRun) -> bool:
    """Tell whether a run can cost its wallet anything: a person's own stack is only metered."""
    has_never_started = run.state is RunState.QUEUED and run.attempt == 1
    return not run.is_adopted and not has_never_started


def _spread_s(run_id: str) -> float:
    """Return how long a run that is new here waits for its first bill, under BILL_S."""
    return zlib.crc32(run_id.encode()) % 1000 / 1000 * BILL_S


def _is_costing(interval: UsageInterval) -> bool:
    return interval.ended_at is None and interval.price_microusd_per_gpu_hour > 0


def _halt(connection: Connection, run: StoredRun, halt: Halt) -> bool:
    """Write the wish that ends a run at a limit; False where it is ending already."""
    wish = wish_at(state=run.state, wish=run.wish, writes_checkpoints=writes_checkpoints(run))
    return wish is not None and _wish(connection, run, wish, halt.reason)


def _end_after_pause(connection: Connection, run: StoredRun) -> None:
    """Stop a run that a limit has paused, now that its last checkpoint is written."""
    if run.wish is not Wish.PAUSE or not run.wish_reason:
        return
    _wish(connection, run, Wish.STOP, run.wish_reason)


def _wish(connection: Connection, run: StoredRun, wish: Wish, reason: str) -> bool:
    changes = {"wish": wish, "wish_reason": reason}
    changed = runs.compare_and_set(connection, run.run_id, run.version, **changes)
    if changed is None:
        return False
    events.add_event(connection, changed, "wish", message=reason)
    _LOG.info("%s: %s: %s", run.run_id, wish, reason, extra={"run": run.run_id})
    return True
