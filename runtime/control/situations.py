"""A run's situation: what is stored, seen and remembered of it when its next step is decided."""

from dataclasses import dataclass
from datetime import datetime

from runtime.control.captures import CaptureMark, CaptureReport
from runtime.control.operations import OperationKind, OperationState, StoredOperation
from runtime.control.places import Seen
from runtime.control.step_kinds import Nothing, Start
from runtime.control.values import StoredRun, Wish
from runtime.states import Capture, RunState, Teardown

MAKING = frozenset({OperationKind.MAKE, OperationKind.SET})
STARTING = frozenset({OperationKind.UP, OperationKind.RESUME})

RETRY_S = (5.0, 300.0)
"""The first and the longest wait before an operation that failed is tried again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PauseMark:
    """When a pause began, and the newest checkpoint by then, where that could be found out."""

    since: datetime
    step: int | None = None
    is_known: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """Everything that the next step of a run hangs on; `newest` is its newest operation.

    `is_ended` says that its workloads were ended as its wish asks, and nothing was begun since.
    """

    run: StoredRun
    now: datetime
    seen: Seen | None = None
    newest: StoredOperation | None = None
    is_holder_dead: bool = False
    is_own: bool = False
    """Of an adopted run: this server can open its stack."""
    is_ended: bool = False
    pause: PauseMark | None = None
    capture: CaptureReport | None = None
    capture_mark: CaptureMark | None = None
    num_refused: int = 0
    """How often in a row an `up` of it found no room, as far as this server knows."""

    @property
    def operation(self) -> StoredOperation | None:
        """Return the newest operation of the current attempt."""
        newest = self.newest
        return newest if newest is not None and newest.attempt == self.run.attempt else None

    @property
    def is_busy(self) -> bool:
        """Tell whether an operation is under way, of whatever attempt, or may still be.

        That is so until a RECOVER has proved that a dead server left no engine behind.
        """
        return self._is_running or self.failed(OperationKind.RECOVER)

    @property
    def is_abandoned(self) -> bool:
        """Tell whether the server of the operation that is under way has died."""
        return self._is_running and self.is_holder_dead

    @property
    def has_server_died(self) -> bool:
        """Tell whether what is recovered from is the end of a server, not a lock that was met."""
        return self.is_abandoned or (self.newest is not None and self.newest.recovers is not None)

    @property
    def is_promoted(self) -> bool:
        """Tell whether the scheduler gave the run a place, or left it to the cluster's queue."""
        return self.run.state is not RunState.QUEUED or self.run.queue_number is None

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether what there is of the run is known and ended on another host only."""
        run = self.run
        if self.seen is None or not self.seen.elsewhere:
            return False
        if run.teardown is Teardown.DONE and run.capture in {Capture.DONE, Capture.INCOMPLETE}:
            return False
        is_ending = run.is_over or run.wish in {Wish.STOP, Wish.DELETE}
        return not (self.is_never_up and (is_ending or not self.is_promoted))

    @property
    def is_never_up(self) -> bool:
        """Tell whether no `up` was ever begun on the run's stack."""
        if self.run.attempt > 1 or self.run.is_adopted:
            return False
        if self.newest is None or self.newest.kind in MAKING:
            return True
        if self.newest.kind is OperationKind.REMOVE:
            return False
        return self.newest.recovers in MAKING

    @property
    def age_s(self) -> float:
        """Return how long ago the run was dispatched."""
        return (self.now - self.run.created_at).total_seconds()

    @property
    def since_end_s(self) -> float:
        """Return how long ago the run came to its end."""
        ended = self.run.ended_at
        return (self.now - ended).total_seconds() if ended is not None else 0.0

    @property
    def since_operation_s(self) -> float:
        """Return how long ago the newest operation ended, 0 while there is none or it goes on."""
        ended = self.newest.finished_at if self.newest is not None else None
        return (self.now - ended).total_seconds() if ended is not None else 0.0

    @property
    def is_written_since(self) -> bool:
        """Tell whether the run's row was written after its newest operation had ended."""
        ended = self.newest.finished_at if self.newest is not None else None
        return ended is not None and self.run.updated_at > ended

    @property
    def _is_running(self) -> bool:
        return self.newest is not None and self.newest.state is OperationState.RUNNING

    def failed(self, kind: OperationKind) -> bool:
        """Tell whether the newest operation is of this kind and failed."""
        newest = self.newest
        return newest is not None and (newest.kind, newest.state) == (kind, OperationState.FAILED)

    def start_up(self) -> Start:
        """Return the step that brings the stack up at the current attempt."""
        kind = OperationKind.RESUME if self.run.attempt > 1 else OperationKind.UP
        return Start(kind=kind)

    def again(self, kind: OperationKind) -> Start | Nothing:
        """Return the step that does a failed operation again, once it has waited long enough."""
        tries = self.newest.num_tries if self.newest is not None else 1
        return Start(kind=kind) if self.since_operation_s >= wait_s(tries) else Nothing()


def wait_s(num_tries: int) -> float:
    """Return how long something waits that was tried so often."""
    return min(RETRY_S[0] * 2 ** min(num_tries - 1, 10), RETRY_S[1])
