"""The states of a run and the transitions between them.

Pure vocabulary: who observes writes states through `runtime.record`, nobody compares strings. The
names are those of the hosted service (docs: "Run lifecycle") plus pause and resume.
"""

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is; terminal states are never left within an attempt."""

    QUEUED = "QUEUED"
    """Admitted; no cluster has GPU headroom yet."""
    PENDING = "PENDING"
    """Headroom is reserved; its workloads wait for a place."""
    CREATING = "CREATING"
    """Placed; containers or processes are being created."""
    PULLING_IMAGE = "PULLING_IMAGE"
    """Scheduled; the image is being pulled. Never on the local target."""
    RUNNING = "RUNNING"
    """All components have started."""
    PAUSING = "PAUSING"
    """A last checkpoint is awaited before the workloads end."""
    PAUSED = "PAUSED"
    """Nothing runs; a resume makes a new attempt."""
    COMPLETED = "COMPLETED"
    """The orchestrator wrote its end mark."""
    FAILED = "FAILED"
    """A component failed; the reason names it."""
    STOPPED = "STOPPED"
    """A person ended it, and a read has shown that nothing runs."""


class Teardown(StrEnum):
    """What became of the run's resources after its end."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    STUCK = "stuck"
    UNREACHABLE = "unreachable"


class Capture(StrEnum):
    """What became of the run's logs and artifacts after its end."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    INCOMPLETE = "incomplete"


TERMINAL_STATES = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.STOPPED})

_FORWARD = (
    RunState.QUEUED,
    RunState.PENDING,
    RunState.CREATING,
    RunState.PULLING_IMAGE,
    RunState.RUNNING,
)
_ENDS = frozenset({RunState.FAILED, RunState.STOPPED})


def is_terminal(state: RunState) -> bool:
    """Tell whether nothing may follow this state within its attempt."""
    return state in TERMINAL_STATES


def may_follow(before: RunState, after: RunState) -> bool:
    """Tell whether `after` is an allowed transition from `before` within one attempt.

    An observer may miss a short state, so a run may skip forward, and a pod that was lost before
    the run was RUNNING may take it back to PENDING. Back to QUEUED is a new attempt, not a
    transition.
    """
    if before == after or is_terminal(before):
        return False
    if after in _ENDS:
        return True
    if before is RunState.PAUSED:
        return False
    if before is RunState.PAUSING:
        return after in {RunState.PAUSED, RunState.COMPLETED}
    if before is RunState.RUNNING:
        return after in {RunState.PAUSING, RunState.COMPLETED}
    if after in {RunState.COMPLETED, RunState.PAUSING, RunState.PAUSED}:
        return after is RunState.COMPLETED
    return after is not RunState.QUEUED and after in _FORWARD


EXIT_CODES = {RunState.COMPLETED: 0, RunState.FAILED: 1, RunState.STOPPED: 2}
"""The exit code of `paddock wait` for each terminal state."""
