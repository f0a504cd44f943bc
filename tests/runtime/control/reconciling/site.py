"""A control plane in a test: a real store, a reconciler, and what performs for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runtime.control.captures import Capturer, NoCapture
from runtime.control.intents import StoredIntents
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.operations import Operation, OperationKind, Operator, StoredOperation
from runtime.control.orphans import Orphan, OrphanSweep
from runtime.control.places import Places
from runtime.control.reconciler import Reconciler
from runtime.control.stack_facts import NoStacks, Stacks
from runtime.control.stack_orphans import StackSweep
from runtime.control.store import events, operations, queue, runs, usage, wallets
from runtime.control.store.store import Store
from runtime.control.values import (
    EntryKind,
    Event,
    StoredRun,
    UsageInterval,
    User,
    wallet_id_of,
)
from runtime.states import RunState
from tests.runtime.control.store.rows import add_run, add_user
from tests.waiting import wait_for


@dataclass(kw_only=True)
class Site:
    """One server over a store; `user` is who dispatches."""

    store: Store
    places: Places
    operator: Operator
    keeper: LeaseKeeper
    user: User
    capturer: Capturer = field(default_factory=NoCapture)
    stacks: Stacks = field(default_factory=NoStacks)
    reconciler: Reconciler = field(init=False)
    intents: StoredIntents = field(init=False)

    def __post_init__(self) -> None:
        """Put the server together."""
        self.reconciler = Reconciler(
            store=self.store,
            places=self.places,
            operator=self.operator,
            keeper=self.keeper,
            capturer=self.capturer,
            stacks=self.stacks,
        )
        self.intents = StoredIntents(
            store=self.store,
            operator=self.operator,
            holder=self.keeper.holder,
            judge_next=None,
            stack_facts=self.stacks.facts,
        )

    def dispatch(self, run_id: str, **changes: object) -> StoredRun:
        """Store a queued run and begin to make its stack, as the dispatcher does."""
        asked = {"cluster": "east", "gpu_type": None, "num_gpus": 1, "max_steps": None} | changes
        with self.store.write() as tx:
            number = queue.next_queue_number(tx)
        run = add_run(self.store, self.user, run_id, queue_number=number, **asked)
        operation = Operation(
            operation_id=f"make-{run_id}",
            kind=OperationKind.MAKE,
            run_id=run_id,
            attempt=1,
            cluster=str(run.cluster),
            settings=run.settings,
        )
        with self.store.write() as tx:
            operations.begin(tx, operation, holder=self.keeper.holder)
        self.operator.start(operation)
        return run

    def run(self, run_id: str) -> StoredRun:
        """Return a run as it is stored."""
        with self.store.read() as tx:
            found = runs.get_run(tx, run_id)
        assert found is not None
        return found

    def newest(self, run_id: str) -> StoredOperation | None:
        """Return the newest operation of a run."""
        with self.store.read() as tx:
            return operations.get(tx, run_id)

    def events(self, run_id: str, kind: str = "state") -> list[Event]:
        """Return the events of one kind."""
        with self.store.read() as tx:
            return [one for one in events.list_events(tx, run_id) if one.kind == kind]

    def states(self, run_id: str) -> list[RunState]:
        """Return the states that a run was in."""
        return [one.state for one in self.events(run_id) if one.state is not None]

    def intervals(self, run_id: str) -> list[UsageInterval]:
        """Return the usage of a run."""
        with self.store.read() as tx:
            return usage.list_intervals(tx, run_id)

    def pass_until(self, condition: Callable[[], object], *, timeout_s: float = 120.0) -> None:
        """Make passes until a condition holds."""

        def passed() -> bool:
            self.reconciler.make_pass()
            return bool(condition())

        wait_for(passed, timeout_s=timeout_s)

    def until_state(self, run_id: str, *states: RunState) -> StoredRun:
        """Make passes until a run is in one of these states."""
        self.pass_until(lambda: self.run(run_id).state in states)
        return self.run(run_id)

    def until_settled(self, run_id: str) -> StoredRun:
        """Make passes until the reconciler has nothing more to do with a run."""
        self.pass_until(lambda: self.is_settled(run_id))
        return self.run(run_id)

    def is_settled(self, run_id: str) -> bool:
        """Tell whether a run is over, captured and torn down."""
        run = self.run(run_id)
        captured = run.capture in {"done", "incomplete"}
        return run.deleted_at is not None or (run.is_over and run.teardown == "done" and captured)

    def sweep(self) -> tuple[Orphan, ...]:
        """Look for what was left behind."""
        stacks = StackSweep(
            store=self.store, stacks=self.stacks, places=self.places, operator=self.operator
        )
        sweep = OrphanSweep(store=self.store, places=self.places, stacks=stacks)
        return sweep.sweep(datetime.now(UTC), None)

    def close(self) -> None:
        """Stop the server."""
        self.reconciler.close()


def make_site(
    keeper: LeaseKeeper,
    places: Places,
    operator: Operator,
    *,
    store: Store,
    user: User | None = None,
    capturer: Capturer | None = None,
    stacks: Stacks | None = None,
) -> Site:
    """Return a server over a store, with a user where none is given, who can pay for hours.

    A bill stops the run of a wallet without money, and whether one comes in a test is chance.
    """
    user = user or add_user(store, "ada", is_admin=True)
    movement = wallets.Movement(
        wallet_id=wallet_id_of(user.user_id, None),
        key=f"of {keeper.holder}",
        kind=EntryKind.CREDIT,
        amount_microusd=10**9,
    )
    with store.write() as tx:
        wallets.post(tx, movement)
    return Site(
        store=store,
        places=places,
        operator=operator,
        keeper=keeper,
        user=user,
        capturer=capturer or NoCapture(),
        stacks=stacks or NoStacks(),
    )
