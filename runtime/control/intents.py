"""What people want of runs, written into the store: one path for the API, the CLI, the dashboard.

An intent writes a wish, or the next attempt, and answers at once; the reconciler brings the run
there. Implements `runtime.control.services.Intents`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue
from sqlalchemy import Connection

from runtime.control.adopted import refuse_adopted
from runtime.control.next_attempt import JudgeNext, check_limits
from runtime.control.operations import Operation, OperationKind, Operator
from runtime.control.planned import writes_checkpoints
from runtime.control.requests import ResumeRun
from runtime.control.stack_facts import NoStacks, StackFacts
from runtime.control.store import events, operations, queue, run_lists, runs
from runtime.control.store.leases import LostLeaseError
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun, User, Wish
from runtime.errors import ConflictError, NotFoundError, RunStateError
from runtime.naming import new_run_id
from runtime.plan import RunPlan, plan_to_json
from runtime.states import RunState

_TRIES = 10
"""Writes of the reconciler that may come in between."""

Changes = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredIntents:
    """Writes intents; `holder` is this server, which performs what comes with new secrets."""

    store: Store
    operator: Operator
    holder: str
    judge_next: JudgeNext | None
    """Judges what a resume asks for; without it nothing is judged: for tests."""
    server: Callable[[], Lease | None] | None = None
    """Returns the lease by which this server lives; without it nothing fences what is begun: for
    tests."""
    stack_facts: Callable[[str], StackFacts] = NoStacks().facts
    """Reads the stack of an adopted run; may take as long as two starts of the engine."""

    def stop(self, user: User, run_id: str) -> StoredRun:
        """End a run; one that is over is returned as it is."""

        def decide(run: StoredRun) -> Changes | None:
            is_ending = run.is_over or run.wish in {Wish.STOP, Wish.DELETE}
            return None if is_ending else {"wish": Wish.STOP}

        return self._change(user, run_id, "stop", decide)

    def pause(self, user: User, run_id: str) -> StoredRun:
        """Checkpoint a run and let its GPUs go."""

        def decide(run: StoredRun) -> Changes | None:
            if run.state in {RunState.PAUSING, RunState.PAUSED} and run.wish is Wish.PAUSE:
                return None
            _require(run, RunState.RUNNING, "be paused")
            _require_checkpoints(run, "pause")
            return {"wish": Wish.PAUSE}

        return self._change(user, run_id, "pause", decide)

    def resume(self, user: User, run_id: str, request: ResumeRun) -> StoredRun:
        """Queue a paused run as its next attempt, which goes on from the last checkpoint.

        Raises ConfigError, RefusedError and RunStateError.
        """
        found, stack = self._look(user, run_id)
        plan = self._judged(found, request, stack) if found is not None else None
        new = _settings_of(request)
        operation_id = new_run_id()

        def decide(run: StoredRun) -> Changes | None:
            if run.is_over:
                raise RunStateError(
                    f"{run_id} is {run.state}, which is final: dispatch it again with "
                    f"--resume-from {run_id}"
                )
            _require(run, RunState.PAUSED, "be resumed")
            changes = _next_attempt(run) | {"state": RunState.QUEUED}
            if request.gpu_type:
                changes["gpu_type"] = request.gpu_type
                if plan is not None and not run.is_adopted:  # whose plan is that of its record
                    changes["plan_json"] = plan_to_json(plan)
            if run.is_adopted and request.secrets:
                raise RunStateError(
                    f"{run_id} was made by hand, so its secrets are set by hand: "
                    f"pulumi config set --secret --path paddock:env.KEY --stack {run_id}"
                )
            names = sorted({*run.secret_names, *request.secrets})
            settings = {**_settings_of_next(run), **new}
            return changes | {"settings": settings, "secret_names": names}

        def follow(connection: Connection, run: StoredRun) -> None:
            if plan is not None:
                check_limits(connection, run, plan)
            if not request.secrets:
                return
            operation = self._new_secrets(operation_id, run, request)
            if not operations.begin(connection, operation, holder=self.holder):
                raise RunStateError(f"{run_id} is being changed: try again in a moment")
            # within the transaction: where this server is ending, the run stays paused
            self.operator.start(operation)

        return self._change(user, run_id, "resume", decide, follow)

    def restart(self, user: User, run_id: str) -> StoredRun:
        """End a running run and go on at once as its next attempt; it keeps its room."""

        def decide(run: StoredRun) -> Changes | None:
            _require(run, RunState.RUNNING, "be restarted")
            _require_checkpoints(run, "restart")
            return _next_attempt(run) | {"state": RunState.PENDING}

        return self._change(user, run_id, "restart", decide)

    def delete(self, user: User, run_id: str) -> None:
        """End a run if it lives, and forget it once it is torn down."""

        def decide(run: StoredRun) -> Changes | None:
            return None if run.wish is Wish.DELETE else {"wish": Wish.DELETE}

        self._change(user, run_id, "delete", decide)

    def _change(
        self,
        user: User,
        run_id: str,
        intent: str,
        decide: Callable[[StoredRun], Changes | None],
        follow: Callable[[Connection, StoredRun], None] = lambda connection, run: None,
    ) -> StoredRun:
        """Write what `decide` says of the run as it is now; None leaves it."""
        _, stack = self._look(user, run_id)
        for _ in range(_TRIES):
            with self.store.write() as tx:
                run = run_lists.visible_run(tx, user, run_id)
                if run is None:
                    raise NotFoundError(f"no run {run_id}")
                refuse_adopted(run, intent, stack)
                changes = decide(run)
                if changes is None:
                    return run
                changes = {"wish_reason": "", **changes}  # a person asked, no limit
                if changes.get("state") is RunState.QUEUED:
                    changes = {**changes, "queue_number": queue.next_queue_number(tx)}
                changed = runs.compare_and_set(tx, run_id, run.version, fence=None, **changes)
                if changed is not None:
                    events.add_event(tx, changed, "wish", message=f"{intent}: {user.name}")
                    if changed.state is not run.state:
                        events.add_event(tx, changed, "state", state=changed.state)
                    follow(tx, changed)
                    return changed
        raise ConflictError(f"{run_id} changes all the time: try again")

    def _look(self, user: User, run_id: str) -> tuple[StoredRun | None, StackFacts]:
        """Read a run, and the stack of an adopted one, before any transaction: it takes a while."""
        with self.store.read() as tx:
            run = run_lists.visible_run(tx, user, run_id)
        is_adopted = run is not None and run.is_adopted
        return run, self.stack_facts(run_id) if is_adopted else StackFacts()

    def _judged(self, run: StoredRun, request: ResumeRun, stack: StackFacts) -> RunPlan | None:
        """Return the plan of a paused run's next attempt; others are refused by their state."""
        if self.judge_next is None or run.state is not RunState.PAUSED:
            return None
        refuse_adopted(run, "resume", stack)
        return self.judge_next(run, request, stack)

    def _new_secrets(self, operation_id: str, run: StoredRun, request: ResumeRun) -> Operation:
        lease = self.server() if self.server is not None else None
        if self.server is not None and lease is None:
            raise LostLeaseError("this server's own lease has run out: it begins nothing meanwhile")
        return Operation(
            operation_id=operation_id,
            kind=OperationKind.SET,
            run_id=run.run_id,
            attempt=run.attempt,
            cluster=run.cluster or "",
            lease=lease,
            settings=_settings_of(request),
            secrets=request.secrets,
        )


def _next_attempt(run: StoredRun) -> dict[str, object]:
    return {
        "wish": Wish.RUN,
        "attempt": run.attempt + 1,
        "settings": _settings_of_next(run),
        "reason": "",
        "started_at": None,
        "ended_at": None,
        "exit_details": None,
    }


def _settings_of_next(run: StoredRun) -> dict[str, JsonValue]:
    """Return a run's settings at the next attempt, which of an adopted one say who began it."""
    return {**run.settings, **({"attempt": run.attempt + 1} if run.is_adopted else {})}


def _settings_of(request: ResumeRun) -> dict[str, JsonValue]:
    asked = {"imageTag": request.image_tag, "gpuType": request.gpu_type}
    return {key: value for key, value in asked.items() if value}


def _require_checkpoints(run: StoredRun, intent: str) -> None:
    if not writes_checkpoints(run):
        raise RunStateError(
            f"{run.run_id} writes no checkpoints, a {intent} would lose all its steps: stop it, "
            "and give the config of the next one a ckpt table"
        )


def _require(run: StoredRun, state: RunState, what: str) -> None:
    is_wished = run.wish in {Wish.STOP, Wish.DELETE}
    if run.state is not state or is_wished:
        now = "being ended" if is_wished and not run.is_over else str(run.state)
        raise RunStateError(f"only a {state} run can {what}, {run.run_id} is {now}")
