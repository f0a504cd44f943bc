"""Acts: does what `runtime.control.steps` decided; every write is a compare-and-set under a lease.

Nothing here decides. What is slow (ending workloads, settling) is done on threads of its own, one
act a run at a time.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from runtime.control.captures import Capturer
from runtime.control.metering import close_intervals
from runtime.control.notices import NOTICE
from runtime.control.operation_settings import new_operation
from runtime.control.operations import (
    CAPACITY,
    Operation,
    OperationBusyError,
    OperationKind,
    Operator,
    not_performed,
)
from runtime.control.places import RunPlace
from runtime.control.run_memory import CAPTURE, PAUSE, RunMemory, end_key, mark_after, pause_message
from runtime.control.situations import PauseMark, Situation
from runtime.control.step_kinds import (
    Advance,
    Amend,
    BeginCapture,
    EndCapture,
    EndWorkloads,
    Forget,
    NewAttempt,
    Note,
    NoteCapture,
    Nothing,
    Requeue,
    SetTeardown,
    Settle,
    Start,
    Step,
)
from runtime.control.store import events, operations, queue, runs
from runtime.control.store.columns import read_clock
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun, Wish
from runtime.errors import PaddockError
from runtime.states import Capture, RunState, Teardown, is_terminal

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The run that a step is for: its situation, place and memory, and the lease to write under."""

    at: Situation
    place: RunPlace | None
    memory: RunMemory
    fence: Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class Acts:
    """Applies steps; `slow` runs what takes as long as processes and pods take to end."""

    store: Store
    operator: Operator
    capturer: Capturer
    slow: Executor
    holder: str

    def apply(self, step: Step, subject: Subject) -> bool:
        """Do a step; True where the run's row has changed and its next step may follow at once."""
        match step:
            case Nothing():
                return False
            case Note():
                return self._set(subject, reason=step.reason) is not None
            case Advance():
                return self._advance(step, subject)
            case Start():
                return self._start(step.kind, subject)
            case Amend():
                return self._amend(step, subject)
            case EndWorkloads():
                self._end(step, subject)
                return False
            case Settle():
                self._slowly(subject, self._settle)
                return False
            case BeginCapture() | NoteCapture() | EndCapture():
                return self._capture(step, subject)
            case Requeue() | NewAttempt():
                return self._queue_again(step, subject)
            case SetTeardown() | Forget():
                return self._finish(step, subject)

    def _advance(self, step: Advance, subject: Subject) -> bool:
        run = subject.at.run
        if step.needs_none_left and self._is_anything_left(subject):
            return False
        with self.store.write() as tx:
            time = step.time or read_clock(tx)
            changes: dict[str, object] = {"state": step.state, "reason": step.reason}
            if step.state is RunState.PAUSED:  # a resume may have been taken back
                changes["wish"] = Wish.PAUSE
            if step.state is RunState.RUNNING and run.started_at is None:
                changes["started_at"] = time
            if is_terminal(step.state):
                changes |= {"ended_at": time, "exit_details": step.exit_details}
            changed = self._compare_and_set(tx, subject, changes)
            if changed is None:
                return False
            events.add_event(tx, changed, "state", state=step.state, message=step.reason)
            if step.state is RunState.PAUSING:
                newest = step.checkpoint_step
                mark = PauseMark(
                    since=read_clock(tx), step=newest, is_known=step.is_checkpoint_known
                )
                events.add_event(tx, changed, PAUSE, message=pause_message(mark))
                subject.memory.pause = mark
            if step.state is RunState.PAUSED:
                close_intervals(tx, changed)
        if step.state is RunState.RUNNING:
            subject.memory.num_refused = 0
        said = run.run_id, run.attempt, step.state, step.reason
        _LOG.info("%s attempt %d %s %s", *said, extra={"run": run.run_id})
        return True

    def _is_anything_left(self, subject: Subject) -> bool:
        if subject.place is None:
            return False
        try:
            return subject.place.num_left() > 0
        except PaddockError as error:
            self._tell(subject, error)
            return True

    def _start(self, kind: OperationKind, subject: Subject) -> bool:
        """Write that an operation begins, and begin it; a crash in between is recovered from."""
        at = subject.at
        operation = new_operation(
            kind, at, subject.fence, control_plane_id=self.store.control_plane_id
        )
        changes: dict[str, object] = {}
        if kind is OperationKind.DESTROY and at.run.teardown is Teardown.NONE:
            changes["teardown"] = Teardown.RUNNING
        replaced = at.newest if kind is OperationKind.RECOVER and at.is_busy else None
        with self.store.write() as tx:
            # where nothing of the row changes, too: its version proves that the decision holds
            changed = self._compare_and_set(tx, subject, changes)
            if changed is None:
                return False
            if not operations.begin(tx, operation, holder=self.holder, recovers=replaced):
                return False
            if changes:
                events.add_event(tx, changed, "teardown", message=Teardown.RUNNING)
        try:
            self.operator.start(operation)
        except OperationBusyError as error:
            self._not_started(operation, error)
        return True

    def _amend(self, step: Amend, subject: Subject) -> bool:
        with self.store.write() as tx:
            changed = self._compare_and_set(tx, subject, {})
            if changed is None:
                return False
            operations.amend(tx, step.operation)
            if step.notice:
                events.add_event(tx, changed, NOTICE, message=step.notice)
        return True

    def _not_started(self, operation: Operation, error: OperationBusyError) -> None:
        with self.store.write() as tx:
            operations.finish(tx, not_performed(operation, error.code, str(error)))

    def _end(self, step: EndWorkloads, subject: Subject) -> None:
        newest = subject.at.newest
        if step.interrupts and newest is not None and newest.holder == self.holder:
            self.operator.interrupt(subject.at.run.run_id)

        def end(subject: Subject) -> None:
            assert subject.place is not None
            subject.place.end_workloads(step.reason)
            subject.memory.ended = end_key(subject.at.run, newest)

        self._slowly(subject, end)

    def _settle(self, subject: Subject) -> None:
        assert subject.place is not None
        subject.place.settle()

    def _slowly(self, subject: Subject, act: Callable[[Subject], None]) -> None:
        """Do something for a run on another thread, unless something is being done already."""
        if subject.memory.is_acting or subject.place is None:
            return
        subject.memory.is_acting = True

        def run() -> None:
            try:
                act(subject)
                subject.memory.trouble = ""
            except PaddockError as error:
                self._tell(subject, error)
            except Exception:
                run_id = subject.at.run.run_id
                _LOG.exception("%s: an act failed", run_id, extra={"run": run_id})
            finally:
                subject.memory.is_acting = False

        self.slow.submit(run)

    def _tell(self, subject: Subject, error: PaddockError) -> None:
        """Write a trouble into the run's journal, once."""
        if subject.memory.trouble == str(error):
            return
        subject.memory.trouble = str(error)
        run_id = subject.at.run.run_id
        _LOG.warning("%s: %s", run_id, error, extra={"run": run_id})
        with self.store.write() as tx:
            events.add_event(tx, subject.at.run, NOTICE, message=str(error))

    def _capture(self, step: BeginCapture | NoteCapture | EndCapture, subject: Subject) -> bool:
        capture, message, before = Capture.RUNNING, "", None
        if isinstance(step, BeginCapture):
            self.capturer.capture(subject.at.run)
        elif isinstance(step, NoteCapture):
            message, before = step.note, subject.memory.capture
        else:
            capture, message = step.capture, step.message
        with self.store.write() as tx:
            changed = self._compare_and_set(tx, subject, {"capture": capture})
            if changed is None:
                return False
            words = f"{capture}: {message}" if message else str(capture)
            events.add_event(tx, changed, CAPTURE, message=words)
            mark = mark_after(before, words, read_clock(tx))
        if capture is Capture.RUNNING:
            subject.memory.capture = replace(mark, is_here=True)
        else:
            self.capturer.forget(subject.at.run)
        return True

    def _queue_again(self, step: Requeue | NewAttempt, subject: Subject) -> bool:
        run = subject.at.run
        changes: dict[str, object] = {"state": RunState.QUEUED, "reason": step.reason}
        if isinstance(step, NewAttempt):
            changes |= {"attempt": run.attempt + 1, "started_at": None, "exit_details": None}
            if run.is_adopted:  # which says who began it
                changes["settings"] = {**run.settings, "attempt": run.attempt + 1}
        with self.store.write() as tx:
            if run.queue_number is None:
                changes["queue_number"] = queue.next_queue_number(tx)
            changed = self._compare_and_set(tx, subject, changes)
            if changed is None:
                return False
            close_intervals(tx, changed)
            events.add_event(tx, changed, "state", state=RunState.QUEUED, message=step.reason)
        newest = subject.at.newest
        subject.memory.num_refused += newest is not None and newest.code == CAPACITY
        return True

    def _finish(self, step: SetTeardown | Forget, subject: Subject) -> bool:
        with self.store.write() as tx:
            if isinstance(step, Forget):
                changes: dict[str, object] = {"deleted_at": read_clock(tx)}
            else:
                changes = {"teardown": step.teardown}
            changed = self._compare_and_set(tx, subject, changes)
            if changed is None or isinstance(step, Forget):
                return False
            words = f"{step.teardown}: {step.message}" if step.message else str(step.teardown)
            events.add_event(tx, changed, "teardown", message=words)
            if step.teardown is Teardown.DONE:
                close_intervals(tx, changed)
        return True

    def _set(self, subject: Subject, **changes: object) -> StoredRun | None:
        with self.store.write() as tx:
            return self._compare_and_set(tx, subject, changes)

    def _compare_and_set(
        self, connection: Connection, subject: Subject, changes: dict[str, object]
    ) -> StoredRun | None:
        run = subject.at.run
        return runs.compare_and_set(
            connection, run.run_id, run.version, fence=subject.fence, **changes
        )
