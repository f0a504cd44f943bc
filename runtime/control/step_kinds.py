"""What the reconciler may do next with a run, as values; decided by `runtime.control.steps`."""

from dataclasses import dataclass
from datetime import datetime

from runtime.control.captures import CaptureNote
from runtime.control.operations import OperationKind, StoredOperation
from runtime.run_record import ExitDetails
from runtime.states import Capture, RunState, Teardown


@dataclass(frozen=True, slots=True)
class Nothing:
    """Look again at the next pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Write what the run's state waits for."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Advance:
    """Write a state; one that says that nothing runs is written only after a read showed it."""

    state: RunState
    reason: str = ""
    exit_details: ExitDetails | None = None
    time: datetime | None = None
    needs_none_left: bool = False
    checkpoint_step: int | None = None
    is_checkpoint_known: bool = True
    """The newest checkpoint when a pause began, where it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Begin an operation on the run's stack."""

    kind: OperationKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Amend:
    """Write the newest operation, which is over, as it is judged from now on; say why in `notice`.

    Its kind, state and number of tries: an `up` that failed of a run that runs counts as done.
    """

    operation: StoredOperation
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndWorkloads:
    """End what runs; `interrupts` the `up` that may be starting more."""

    reason: str
    interrupts: bool = False


@dataclass(frozen=True, slots=True)
class Settle:
    """Judge a run whose supervisor died."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Requeue:
    """Put a promoted run that found no room back into the queue, at its old number."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAttempt:
    """Queue a run that lost its place, or found no whole one, as its next attempt: no failure."""

    reason: str


@dataclass(frozen=True, slots=True)
class BeginCapture:
    """Begin to keep what the run wrote."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteCapture:
    """Write how a capture goes on, for the servers after this one."""

    note: CaptureNote


@dataclass(frozen=True, kw_only=True, slots=True)
class EndCapture:
    """Write what became of the capture."""

    capture: Capture
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SetTeardown:
    """Write what became of the teardown."""

    teardown: Teardown
    message: str = ""


@dataclass(frozen=True, slots=True)
class Forget:
    """Take a deleted run out of every list."""


Step = (
    Nothing
    | Note
    | Advance
    | Start
    | Amend
    | EndWorkloads
    | Settle
    | Requeue
    | NewAttempt
    | BeginCapture
    | NoteCapture
    | EndCapture
    | SetTeardown
    | Forget
)
