"""What to do with a run whose stack was not made, or did not come up: again, or its end. Pure.

The part of `runtime.control.steps` that judges operations that failed or were recovered from.
"""

from dataclasses import replace

from runtime.control.failures import CUT_OFF
from runtime.control.operations import (
    CAPACITY,
    ENGINE_ALIVE,
    LOST_LEASE,
    OperationKind,
    OperationState,
    StoredOperation,
)
from runtime.control.seen_steps import is_unseen, noted, observed, observed_end, silence
from runtime.control.situations import Situation, wait_s
from runtime.control.step_kinds import (
    Advance,
    Amend,
    EndWorkloads,
    NewAttempt,
    Nothing,
    Requeue,
    Start,
    Step,
)
from runtime.states import RunState

MAX_UPS = 3
"""How often in a row an `up` or a MAKE is tried that failed by something that may pass."""

MAX_LOCKED = 8
"""How often in a row an `up` may meet a lock, a RECOVER in between: ten minutes."""

_MAKE_GRACE_S = 120.0


def unmade(at: Situation) -> Step:
    """Return the step of a run on whose stack nothing was done at this attempt."""
    if at.run.attempt > 1:
        return _started(at) if at.is_promoted else Nothing()
    if at.age_s < _MAKE_GRACE_S:
        return Nothing()
    return Advance(
        state=RunState.FAILED,
        reason="the server ended before the run's stack was made: dispatch it again",
    )


def recovered(at: Situation, operation: StoredOperation) -> Step:
    """Go on after a crash: what was under way is done again, but for secrets, which are gone.

    A run that runs is left alone: the `up` of another release, or of another offer, is refused.
    """
    if operation.recovers is OperationKind.MAKE and not at.run.secret_names:
        return Start(kind=OperationKind.MAKE)
    if operation.recovers is OperationKind.SET:
        return _paused_again("the server ended while it stored the secrets")
    if operation.recovers is OperationKind.MAKE:
        reason = "the server ended while it stored the run's secrets: dispatch it again"
        return Advance(state=RunState.FAILED, reason=reason)
    ended = observed_end(at)
    if ended is not None:
        return ended
    if not at.is_promoted:
        return Nothing()
    if is_unseen(at):
        return observed(at)
    return _taken_as_up(at, operation) if _is_up(at) else at.start_up()


def failed_make(at: Situation, operation: StoredOperation) -> Step:
    """Make a stack again that was cut off; secrets went with the operation, so not with any."""
    if operation.kind is OperationKind.SET:
        return _paused_again(operation.message)
    is_begun = operation.code != LOST_LEASE
    may_pass = operation.is_retryable or operation.code in CUT_OFF or not is_begun
    has_tries = operation.num_tries < MAX_UPS or not is_begun
    if may_pass and has_tries and not at.run.secret_names:
        return at.again(operation.kind)
    return Advance(state=RunState.FAILED, reason=operation.message)


def failed_up(at: Situation, operation: StoredOperation) -> Step:
    """Bring a stack up again, queue it again, or end the run; one that runs goes on."""
    is_refused = operation.code == CAPACITY
    if is_refused and not at.is_promoted:
        return Nothing()
    ended = observed_end(at)
    is_own_end = is_refused and ended is not None and ended.state is RunState.STOPPED
    is_own_end = is_own_end and ended is not None and ended.reason == operation.message
    if ended is not None and not is_own_end:
        return ended
    if is_unseen(at):
        return _unheard(at, operation)
    if operation.code == ENGINE_ALIVE and operation.num_tries < MAX_LOCKED:
        return at.again(OperationKind.RECOVER)
    has_tries = operation.num_tries < MAX_UPS or operation.code == LOST_LEASE
    if operation.is_retryable and has_tries and not is_refused:
        return at.again(operation.kind)
    if _is_up(at):
        words = f"runs on although its {operation.kind} failed: {operation.message}"
        return _taken_as_up(at, operation, notice=words)
    if is_refused:
        return _refused(at, operation, is_ended=at.is_ended or is_own_end)
    return Advance(state=RunState.FAILED, reason=operation.message)


def _refused(at: Situation, operation: StoredOperation, *, is_ended: bool) -> Step:
    """Queue a run again that found no room; what it has by then holds room and is ended first.

    What was ended does not start again at its attempt, so it goes on as the next one.
    """
    assert at.seen is not None
    if is_ended:
        return NewAttempt(reason=operation.message)
    if at.seen.transition is not None or at.seen.num_left > 0:
        return EndWorkloads(reason=operation.message)
    return _started(at) if at.is_written_since else Requeue(reason=operation.message)


def _started(at: Situation) -> Step:
    """Bring a stack up; a run that found no room waits the longer, the more often it found none."""
    newest, num_before = at.newest, at.num_refused - 1
    is_refused = newest is not None and newest.code == CAPACITY and num_before > 0
    if newest is not None and is_refused and at.since_operation_s < wait_s(num_before):
        return noted(at, newest.message)
    return at.start_up()


def _unheard(at: Situation, operation: StoredOperation) -> Step:
    """Wait for a cluster that is silent: what failed meanwhile says nothing about the run."""
    if operation.num_tries > 0 and operation.code != CAPACITY:
        return Amend(operation=replace(operation, num_tries=0))
    return noted(at, silence(at))


def _is_up(at: Situation) -> bool:
    """Tell whether all of the run runs at this attempt; whose record says less may lack a part."""
    seen = at.seen
    if seen is None or seen.transition is None or seen.is_unsettled:
        return False
    return seen.transition.state is RunState.RUNNING and seen.num_left > 0


def _taken_as_up(at: Situation, operation: StoredOperation, *, notice: str = "") -> Amend:
    kind = at.start_up().kind
    done = replace(operation, kind=kind, state=OperationState.DONE, recovers=None)
    return Amend(operation=done, notice=notice)


def _paused_again(why: str) -> Advance:
    """Take a resume back whose secrets were not stored: the run has its checkpoint all the same."""
    reason = f"not resumed: {why}: resume it again, with its secrets"
    return Advance(state=RunState.PAUSED, reason=reason)
