"""What to do with a run that is over: capture what it wrote, destroy its stack, remove it. Pure.

The part of `runtime.control.steps` that begins with a terminal state.
"""

from runtime.control.captures import CAPTURE_LIMIT_S, MAX_AGAIN, CaptureNote, CaptureState
from runtime.control.failures import NOT_TAKEN_BACK
from runtime.control.operations import UNREACHABLE, OperationKind, OperationState
from runtime.control.situations import MAKING, Situation
from runtime.control.step_kinds import (
    BeginCapture,
    EndCapture,
    EndWorkloads,
    Forget,
    NoteCapture,
    Nothing,
    SetTeardown,
    Settle,
    Start,
    Step,
)
from runtime.control.values import Wish
from runtime.states import Capture, Teardown

STUCK_TRIES = 3
"""After so many destroys in a row that failed, the teardown is said to be stuck; it goes on."""

LET_GO_S = 15.0
"""How long the components of a run that is over have to end by themselves."""

BY_HAND_S = 20.0
"""How long whoever made a run has to destroy it at its end, as `paddock wait --destroy` does."""

_ENDING = frozenset({OperationKind.DESTROY, OperationKind.REMOVE, OperationKind.RECOVER})
_LATE = "nothing more was kept for {:.0f} s: what is missing stays in the run directory"


def aftermath(at: Situation) -> Step:
    """Return the next step of a run that is over."""
    run, seen = at.run, at.seen
    if run.teardown is Teardown.DONE and run.capture in {Capture.DONE, Capture.INCOMPLETE}:
        return Forget() if run.wish is Wish.DELETE else Nothing()
    if at.is_busy:
        return Nothing()
    if at.is_never_up:
        return _unused(at)
    if seen is not None and seen.is_unsettled:
        return Settle()
    if seen is not None and seen.is_reachable and seen.num_left > 0 and not at.is_ended:
        is_late = at.since_end_s > LET_GO_S
        return EndWorkloads(reason=run.reason) if is_late else Nothing()
    return captured(at) or _torn_down(at)


def captured(at: Situation) -> Step | None:
    """Return the next step of the capture, None once it is over."""
    if at.run.capture is Capture.NONE:
        return BeginCapture()
    if at.run.capture is not Capture.RUNNING:
        return None
    report = at.capture
    if report is not None and report.state is CaptureState.DONE:
        return EndCapture(capture=Capture.DONE, message=report.message)
    if report is not None and report.state is CaptureState.FAILED:
        return EndCapture(capture=Capture.INCOMPLETE, message=report.message)
    note = _capture_note(at)
    if note is not None:
        return NoteCapture(note=note)
    if _is_late(at):
        why = f"{report.message}; " if report is not None and report.message else ""
        return EndCapture(capture=Capture.INCOMPLETE, message=why + _LATE.format(CAPTURE_LIMIT_S))
    return Nothing()


def _capture_note(at: Situation) -> CaptureNote | None:
    """Return what the next server has to know of the capture, None where it can by now."""
    report, mark = at.capture, at.capture_mark
    if report is None or mark is None:
        return None
    if report.has_kept:
        return CaptureNote.KEPT if mark.num_again > 0 else None
    return CaptureNote.AGAIN if report.had_turn and not mark.is_here else None


def _is_late(at: Situation) -> bool:
    """Tell whether a capture makes no progress, in this server or over several that ended."""
    report, mark = at.capture, at.capture_mark
    since_s = (at.now - mark.since).total_seconds() if mark is not None else 0.0
    if mark is not None and mark.num_again >= MAX_AGAIN and since_s > CAPTURE_LIMIT_S:
        return True
    idle_s = report.idle_s if report is not None and report.idle_s is not None else since_s
    return idle_s > CAPTURE_LIMIT_S


def _unused(at: Situation) -> Step:
    """Return the step of a run whose stack never came up: there is nothing to keep or to end."""
    if at.run.capture is not Capture.DONE:
        return EndCapture(capture=Capture.DONE)
    newest = at.newest
    has_taken_back = newest is not None and newest.code not in NOT_TAKEN_BACK
    if at.failed(OperationKind.MAKE) and has_taken_back:
        return SetTeardown(teardown=Teardown.DONE)
    return Start(kind=OperationKind.REMOVE)


def _torn_down(at: Situation) -> Step:
    # an attempt that somebody began by hand has had none yet
    newest = at.operation if at.run.is_adopted else at.newest
    kind = newest.kind if newest is not None else OperationKind.UP
    if at.run.is_adopted and kind not in _ENDING:
        return _teardown_of_adopted(at)
    is_done = newest is not None and newest.state is OperationState.DONE
    if kind is OperationKind.RECOVER and newest is not None:
        is_removing = newest.recovers is OperationKind.REMOVE
        return Start(kind=OperationKind.REMOVE if is_removing else OperationKind.DESTROY)
    if kind is OperationKind.REMOVE:
        return SetTeardown(teardown=Teardown.DONE) if is_done else at.again(kind)
    if kind is not OperationKind.DESTROY or kind in MAKING:
        return Start(kind=OperationKind.DESTROY)
    if not is_done:
        return _failed_destroy(at)
    left = at.seen.num_left if at.seen is not None and at.seen.is_reachable else 0
    return Start(kind=OperationKind.REMOVE) if left == 0 else at.again(kind)


def _teardown_of_adopted(at: Situation) -> Step:
    """Destroy a stack that a person made, unless that person does, or has done so."""
    if at.seen is not None and at.seen.is_torn_down:
        has_project = at.newest is not None and at.newest.kind is not OperationKind.REMOVE
        if has_project:
            return Start(kind=OperationKind.REMOVE)
        return SetTeardown(teardown=Teardown.DONE)
    is_asked = at.run.wish in {Wish.STOP, Wish.DELETE}
    is_late = is_asked or at.since_end_s > BY_HAND_S
    return Start(kind=OperationKind.DESTROY) if is_late else Nothing()


def _failed_destroy(at: Situation) -> Step:
    """Say how a teardown hangs, and try it again for as long as it does."""
    newest = at.newest
    assert newest is not None
    teardown = None
    if newest.code == UNREACHABLE:
        teardown = Teardown.UNREACHABLE
    elif newest.num_tries >= STUCK_TRIES:
        teardown = Teardown.STUCK
    if teardown is not None and at.run.teardown is not teardown:
        return SetTeardown(teardown=teardown, message=newest.message)
    return at.again(OperationKind.DESTROY)
