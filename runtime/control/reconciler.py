"""Reconciler: brings every run to where it is wished, pass after pass; one or many servers.

A pass loads the live runs of the shards that this server holds, looks at their places with no
database session open, decides one step a run, and writes it under the shard's lease. What costs
time is done elsewhere: operations in processes, ends of workloads on threads. Called by `paddock
serve` and `paddock reconcile`.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from runtime.control.acts import Acts, Subject
from runtime.control.adopted import Adoption
from runtime.control.billing import Biller
from runtime.control.captures import Capturer, NoCapture
from runtime.control.holders import Holders
from runtime.control.lease_keeper import SCHEDULER, LeaseKeeper, shard_of
from runtime.control.metering import Metering
from runtime.control.operations import (
    OperationKind,
    OperationReport,
    OperationState,
    Operator,
    StoredOperation,
    not_performed,
)
from runtime.control.orphans import Orphan, OrphanSweep
from runtime.control.places import Places
from runtime.control.promotions import Promotions, is_waiting
from runtime.control.run_memory import RunMemory, end_key
from runtime.control.situations import Situation
from runtime.control.stack_facts import NoStacks, Stacks
from runtime.control.stack_orphans import StackSweep
from runtime.control.steps import next_step
from runtime.control.store import leases, operations, run_lists, runs
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun
from runtime.errors import PaddockError
from runtime.states import Capture

PASS_S = 1.0
ADOPT_S = 5.0
SWEEP_S = 300.0
_MAX_STEPS = 8
"""Steps that one run may take in a pass; the next one goes on."""

_NUM_THREADS = 8
_LOST_S = 60.0
"""After which an operation that this server's own operator does not know has never begun."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a pass loads at once: the live runs, their newest operations, the time."""

    runs: tuple[StoredRun, ...]
    newest: dict[str, StoredOperation]
    now: datetime


@dataclass(kw_only=True, slots=True)
class Reconciler:
    """Reconciles until it is ended; `keeper` holds its leases, and is entered by the caller."""

    store: Store
    places: Places
    operator: Operator
    keeper: LeaseKeeper
    capturer: Capturer = field(default_factory=NoCapture)
    stacks: Stacks = field(default_factory=NoStacks)
    sweeps: bool = True
    """Look for orphans now and then without being asked."""
    _memories: dict[str, RunMemory] = field(default_factory=dict)
    _acts: Acts = field(init=False)
    _metering: Metering = field(init=False)
    _holders: Holders = field(init=False)
    _biller: Biller = field(init=False)
    _promotions: Promotions = field(init=False)
    _adoption: Adoption = field(init=False)
    _stack_sweep: StackSweep = field(init=False)
    _sweep: OrphanSweep = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _slow: ThreadPoolExecutor = field(init=False)
    _due: dict[str, float] = field(default_factory=dict)
    _sweeping: Future[None] | None = None

    def __post_init__(self) -> None:
        """Put the parts together; nothing is read yet."""
        self._pool = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="reconcile")
        self._slow = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="slow")
        self._acts = Acts(
            store=self.store,
            operator=self.operator,
            capturer=self.capturer,
            slow=self._slow,
            holder=self.keeper.holder,
        )
        self._metering = Metering(self.store, self.places)
        self._holders = Holders(self.keeper.holder)
        self._biller = Biller(store=self.store)
        self._promotions = Promotions(store=self.store, places=self.places)
        self._adoption = Adoption(store=self.store, places=self.places)
        self._stack_sweep = StackSweep(
            store=self.store, stacks=self.stacks, places=self.places, operator=self.operator
        )
        self._sweep = OrphanSweep(store=self.store, places=self.places, stacks=self._stack_sweep)

    def run(self, is_over: threading.Event) -> None:
        """Make a pass a second until the event is set; a pass that fails is made again."""
        while not is_over.is_set():
            began = time.monotonic()
            try:
                self.make_pass()
            except Exception:  # a loop that must go on: the database may be away for a while
                _LOG.exception("a pass failed")
            is_over.wait(max(0.05, PASS_S - (time.monotonic() - began)))

    def close(self) -> None:
        """Wait for what is being done; what has not begun is left to the next server."""
        self._stack_sweep.is_over.set()
        self._pool.shutdown(cancel_futures=True)
        self._slow.shutdown(cancel_futures=True)

    def make_pass(self) -> None:
        """Look at every run of this server's shards once, and do what follows."""
        self.places.refresh()
        loaded = self._load()
        self._write_reports(loaded)
        shards = self.keeper.shards()
        mine = [run for run in loaded.runs if shard_of(run.run_id) in shards]
        for run_id in self._memories.keys() - {run.run_id for run in mine}:
            del self._memories[run_id]
        list(self._pool.map(lambda run: self._safely(run, loaded), mine))
        self._biller.bill(mine, self.keeper)
        fence = self.keeper.lease(SCHEDULER)
        if fence is not None:
            self._schedule(fence, loaded)

    def is_busy(self) -> bool:
        """Tell whether something is under way that the next passes will go on with."""
        loaded = self._load()
        is_acting = any(memory.is_acting for memory in self._memories.values())
        is_capturing = any(run.capture is Capture.RUNNING for run in loaded.runs)
        is_operating = any(one.state is OperationState.RUNNING for one in loaded.newest.values())
        return is_acting or is_capturing or is_operating

    @property
    def num_runs(self) -> int:
        """Return how many runs the last pass looked at."""
        return len(self._memories)

    def sweep(self) -> tuple[Orphan, ...]:
        """Look for orphans now, and return them; nothing where another server does."""
        fence = self.keeper.lease(SCHEDULER)
        return self._sweep.sweep(self._load().now, fence) if fence is not None else ()

    def _load(self) -> Loaded:
        with self.store.read() as tx:
            live = run_lists.live_runs(tx)
            newest = operations.list_of_live_runs(tx)
            held = leases.list_held(tx)
            now = read_clock(tx)
        self._holders.note(frozenset(lease.name for lease in held))
        return Loaded(runs=tuple(live), newest=newest, now=now)

    def _write_reports(self, loaded: Loaded) -> None:
        """Write how this server's own operations ended, whoever holds their runs' shards."""
        for newest in list(loaded.newest.values()):
            is_running = newest.state is OperationState.RUNNING
            if not is_running or newest.holder != self.keeper.holder:
                continue
            report = self.operator.state(newest.run_id)
            is_known = report is not None and report.operation_id == newest.operation_id
            if not is_known and (loaded.now - newest.started_at).total_seconds() > _LOST_S:
                report = _never_begun(newest)
            self._write_report(report, newest, loaded)

    def _write_report(
        self, report: OperationReport | None, newest: StoredOperation, loaded: Loaded
    ) -> None:
        if report is None or report.operation_id != newest.operation_id:
            return
        if report.state is OperationState.RUNNING:
            return
        with self.store.write() as tx:
            operations.finish(tx, report)
            found = operations.get(tx, newest.run_id)
        if found is not None:
            loaded.newest[newest.run_id] = found

    def _safely(self, run: StoredRun, loaded: Loaded) -> None:
        try:
            self._reconcile(run, loaded)
        except (PaddockError, DBAPIError) as error:
            _LOG.warning("%s: %s", run.run_id, error, extra={"run": run.run_id})
        except Exception:  # one run's trouble must not end the others' reconciliation
            _LOG.exception("%s: its pass failed", run.run_id, extra={"run": run.run_id})

    def _reconcile(self, run: StoredRun, loaded: Loaded) -> None:
        fence = self.keeper.lease(shard_of(run.run_id))
        memory = self._memories.setdefault(run.run_id, RunMemory())
        newest, is_dead = self._judge_holder(loaded.newest.get(run.run_id), loaded)
        if fence is None or memory.is_acting or _is_idle(run, newest):
            return
        place = self.places.place_of(run)
        seen = place.observe() if place is not None else None
        if seen is not None:
            self._metering.meter(run, seen, memory, fence)
        at = Situation(
            run=run,
            now=loaded.now,
            seen=seen,
            newest=newest,
            is_holder_dead=is_dead,
            is_own=run.is_adopted and self.stacks.owns(run),
        )
        self._walk(Subject(at=at, place=place, memory=memory, fence=fence))

    def _judge_holder(
        self, newest: StoredOperation | None, loaded: Loaded
    ) -> tuple[StoredOperation | None, bool]:
        """Return the operation, and whether it was abandoned; one that ended is written as such."""
        if newest is None or newest.state is not OperationState.RUNNING:
            return newest, False
        if self._holders.is_living(newest.holder):
            return newest, False
        report = self.operator.state(newest.run_id)  # what a dead server of this host left
        self._write_report(report, newest, loaded)
        is_known = report is not None and report.operation_id == newest.operation_id
        is_dead = not is_known and self._holders.is_dead(newest.holder)
        return loaded.newest[newest.run_id], is_dead

    def _walk(self, subject: Subject) -> None:
        """Take steps until one has to wait; what was seen is good for all of them."""
        attempt = subject.at.run.attempt
        for _ in range(_MAX_STEPS):
            subject = self._remembered(subject)
            if not self._acts.apply(next_step(subject.at), subject):
                return
            with self.store.read() as tx:
                run = runs.get_run(tx, subject.at.run.run_id)
                newest = operations.get(tx, subject.at.run.run_id)
            if run is None or run.attempt != attempt:
                return
            at = replace(subject.at, run=run, newest=newest, is_holder_dead=False)
            subject = replace(subject, at=at)

    def _remembered(self, subject: Subject) -> Subject:
        at, memory = subject.at, subject.memory
        if memory.has_forgotten(at.run):
            with self.store.read() as tx:
                memory.recall(tx, at.run)
        is_captured = at.run.capture is Capture.RUNNING and not at.is_elsewhere
        at = replace(
            at,
            is_ended=memory.ended == end_key(at.run, at.newest),
            pause=memory.pause,
            capture=self.capturer.capture(at.run) if is_captured else None,
            capture_mark=memory.capture,
            num_refused=memory.num_refused,
        )
        return replace(subject, at=at)

    def _schedule(self, fence: Lease, loaded: Loaded) -> None:
        """Do what one server does for all: promote, adopt, and look for what was left behind."""
        self._promotions.promote(loaded.runs, loaded.newest, fence)
        if self._is_due("adopt", ADOPT_S):
            self._adoption.adopt(fence)
        # one at a time: the last may still wait for a destroy, and would find the same again
        is_sweeping = self._sweeping is not None and not self._sweeping.done()
        if self.sweeps and not is_sweeping and self._is_due("sweep", SWEEP_S):
            self._sweeping = self._slow.submit(self._sweep.sweep_safely, loaded.now, fence)

    def _is_due(self, what: str, every_s: float) -> bool:
        if time.monotonic() < self._due.get(what, 0.0):
            return False
        self._due[what] = time.monotonic() + every_s
        return True


def _is_idle(run: StoredRun, newest: StoredOperation | None) -> bool:
    """Tell whether the scheduler alone has to do with a run: it waits, and its stack is made."""
    if newest is None or newest.kind is OperationKind.RECOVER:
        return False
    return is_waiting(run) and newest.state is OperationState.DONE


def _never_begun(newest: StoredOperation) -> OperationReport:
    what = f"{newest.kind} was never begun: the server is overloaded, or was restarted"
    return not_performed(newest, "lost", what)
