"""What follows from what is seen of a run on its cluster: its record is mirrored. Pure.

The part of `runtime.control.steps` that looks at the cluster; `runtime.control.start_steps` asks
here, too, before it judges an operation that failed.
"""

from runtime.control.situations import Situation
from runtime.control.step_kinds import Advance, Note, Nothing, Settle, Step
from runtime.states import RunState, is_terminal, may_follow

MISSING_S = 120.0
"""How long after an `up` a cluster may show nothing of the run."""

SILENCE_S = 10.0
"""How long a cluster may be silent before its runs say so; a watch that begins is, for a moment."""


def is_unseen(at: Situation) -> bool:
    """Tell whether nobody knows now what there is of the run: its cluster is silent."""
    return at.seen is None or not at.seen.is_reachable


def observed(at: Situation) -> Step:
    """Mirror what is seen of a run whose `up` is under way or done."""
    seen, run = at.seen, at.run
    if seen is None or not seen.is_reachable:
        since = seen.silent_since if seen is not None else None
        is_long = since is not None and (at.now - since).total_seconds() > SILENCE_S
        return noted(at, silence(at)) if is_long else Nothing()
    if seen.is_unsettled and not at.is_busy:
        return Settle()
    found = seen.transition
    if found is None:
        is_missing = at.since_operation_s > MISSING_S and not at.is_busy and seen.num_left == 0
        if is_missing and run.state is not RunState.QUEUED:
            reason = f"nothing of the run is left on cluster {run.cluster}"
            return Advance(state=RunState.FAILED, reason=reason)
        return Nothing()
    if found.state is run.state:
        is_heard_again = run.reason.startswith(silence(at))
        return Note(reason=found.reason) if is_heard_again else noted(at, found.reason)
    if not may_follow(run.state, found.state):
        return Nothing()
    return advanced(at)


def observed_end(at: Situation) -> Advance | None:
    """Return the end that the run's own record says, None while it says none."""
    found = at.seen.transition if at.seen is not None else None
    return advanced(at) if found is not None and is_terminal(found.state) else None


def advanced(at: Situation) -> Advance:
    """Return the step into the state that the run's record has."""
    assert at.seen is not None
    assert at.seen.transition is not None
    return Advance(
        state=at.seen.transition.state,
        reason=at.seen.transition.reason,
        exit_details=at.seen.exit_details,
        time=at.seen.since,
        needs_none_left=at.seen.transition.state is RunState.STOPPED,
    )


def silence(at: Situation) -> str:
    """Return what is said of a run's cluster that does not answer."""
    return f"cluster {at.run.cluster} does not answer"


def noted(at: Situation, reason: str) -> Step:
    """Return the step that says what the run waits for, unless it says so."""
    return Note(reason=reason) if reason and reason != at.run.reason else Nothing()
