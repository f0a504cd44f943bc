"""What to do next with a run: one decision from what is stored and what is seen. Pure.

Called by `runtime.control.reconciler` for each live run in each pass; `runtime.control.acts` does
what is decided. What did not come up is `runtime.control.start_steps`, what is seen of a run
`runtime.control.seen_steps`, its end `runtime.control.last_steps`. A queued run is promoted by
`runtime.control.scheduler`, not here.
"""

from runtime.control import last_steps
from runtime.control.operations import OperationKind, OperationState
from runtime.control.places import Seen
from runtime.control.seen_steps import advanced, noted, observed, observed_end, silence
from runtime.control.situations import MAKING, STARTING, PauseMark, Situation
from runtime.control.start_steps import failed_make, failed_up, recovered, unmade
from runtime.control.step_kinds import (
    Advance,
    EndWorkloads,
    NewAttempt,
    Nothing,
    SetTeardown,
    Start,
    Step,
)
from runtime.control.values import Wish
from runtime.states import RunState, Teardown, may_follow

PAUSE_LIMIT_S = 600.0
"""How long a pause waits for a new checkpoint before it goes back to the one before."""

STOPPED = "stopped on request"
DELETED = "deleted"
PAUSED = "paused"
"""Reasons of ends that a person wished; PAUSED also stands in the record of the paused attempt."""


def next_step(at: Situation) -> Step:
    """Return what to do with a run now."""
    run = at.run
    if run.is_adopted and not at.is_own:
        return _adopted(at)
    if at.is_elsewhere:
        return _elsewhere(at)
    if at.is_abandoned:
        return Start(kind=OperationKind.RECOVER)
    if at.failed(OperationKind.RECOVER) and isinstance(at.again(OperationKind.RECOVER), Start):
        return Start(kind=OperationKind.RECOVER)
    if run.is_over:
        return last_steps.aftermath(at)
    if run.wish in {Wish.STOP, Wish.DELETE}:
        return _stop(at, DELETED if run.wish is Wish.DELETE else run.wish_reason or STOPPED)
    if run.state is RunState.PAUSED:
        return Nothing()
    if run.wish is Wish.PAUSE and run.state in {RunState.RUNNING, RunState.PAUSING}:
        return _pause(at)
    return _run(at)


def _elsewhere(at: Situation) -> Step:
    """Leave a run to a server of the machine that is its cluster, and say so."""
    assert at.seen is not None
    why = f"{silence(at)}: {at.seen.elsewhere}"
    if at.run.is_over:
        is_said = at.run.teardown is Teardown.UNREACHABLE
        return Nothing() if is_said else SetTeardown(teardown=Teardown.UNREACHABLE, message=why)
    is_at_rest = at.run.state is RunState.PAUSED or not at.is_promoted
    return Nothing() if is_at_rest and at.run.wish is Wish.RUN else noted(at, why)


def _run(at: Situation) -> Step:
    """Bring a run to its end, as it was wished."""
    operation = at.operation
    if at.seen is not None and at.seen.preempted and not at.is_busy and not at.run.is_adopted:
        return NewAttempt(reason=at.seen.preemption)
    if operation is None:
        return unmade(at) if at.run.is_driven else observed(at)
    if operation.kind is OperationKind.RECOVER and not at.is_busy:
        return recovered(at, operation)
    if operation.kind in MAKING:
        if operation.state is OperationState.FAILED:
            return failed_make(at, operation)
        return Nothing() if at.is_busy or not at.is_promoted else at.start_up()
    if operation.kind in STARTING and operation.state is OperationState.FAILED:
        return failed_up(at, operation)
    return observed(at)


def _stop(at: Situation, reason: str) -> Step:
    """End a run in whatever state it is; STOPPED comes only once nothing of it is left."""
    seen = at.seen
    if at.is_busy and at.operation is not None and at.operation.kind in MAKING:
        return Nothing()
    if at.is_never_up and not at.is_busy and (seen is None or seen.num_left == 0):
        return Advance(state=RunState.STOPPED, reason=reason)
    if seen is None or not seen.is_reachable:
        return noted(at, f"stops once cluster {at.run.cluster} answers")
    is_clear = seen.num_left == 0 and at.is_ended
    if at.is_busy:  # an `up` may be starting more
        return Nothing() if is_clear else EndWorkloads(reason=reason, interrupts=True)
    end = observed_end(at)
    if at.run.state is RunState.PAUSED and seen.num_left == 0:  # its record says "paused"
        return Advance(state=RunState.STOPPED, reason=reason, needs_none_left=True)
    if end is not None and (end.state is not RunState.STOPPED or seen.num_left == 0):
        return end
    if not is_clear:
        return EndWorkloads(reason=reason)
    return Advance(state=RunState.STOPPED, reason=reason, needs_none_left=True)


def _pause(at: Situation) -> Step:
    """Wait for a new checkpoint, end what runs, and say PAUSED once nothing of it is left."""
    seen, pause = at.seen, at.pause
    if seen is None or not seen.is_reachable or at.is_busy:
        return Nothing()
    end = observed_end(at)
    is_own_end = end is not None and end.state is RunState.STOPPED and end.reason == PAUSED
    if end is not None and not is_own_end:
        return end
    if at.run.state is RunState.RUNNING:
        return _pausing(seen)
    if seen.num_left == 0 and (is_own_end or at.is_ended):
        return Advance(state=RunState.PAUSED, reason=PAUSED, needs_none_left=True)
    if is_own_end or at.is_ended or pause is None or _may_end(at, pause):
        return EndWorkloads(reason=PAUSED)
    if not pause.is_known and seen.are_checkpoints_known:  # every old one would count as new
        return _pausing(seen)
    return Nothing()


def _pausing(seen: Seen) -> Advance:
    step = seen.has_checkpoint_step
    after = "" if step is None else f" after step {step}"
    return Advance(
        state=RunState.PAUSING,
        reason=f"waits for a checkpoint{after}",
        checkpoint_step=step,
        is_checkpoint_known=seen.are_checkpoints_known,
    )


def _may_end(at: Situation, pause: PauseMark) -> bool:
    assert at.seen is not None
    newest = at.seen.has_checkpoint_step
    is_new = newest is not None and (pause.step is None or newest > pause.step)
    is_new = is_new and pause.is_known
    return is_new or (at.now - pause.since).total_seconds() > PAUSE_LIMIT_S


def _adopted(at: Situation) -> Step:
    """Mirror a run whose stack this server cannot open; nothing of it is ever touched."""
    seen, run = at.seen, at.run
    if seen is None or not seen.is_reachable:
        return Nothing()
    if not run.is_over:
        found = seen.transition
        if found is None or not may_follow(run.state, found.state):
            return Nothing()
        return advanced(at)
    captured = last_steps.captured(at)
    if captured is not None:
        return captured
    is_being_torn_down = at.is_busy and not at.is_holder_dead
    if run.teardown is Teardown.DONE or is_being_torn_down:
        return Nothing()
    if seen.is_torn_down or seen.transition is None:
        return SetTeardown(teardown=Teardown.DONE)
    return Nothing()
