"""Capture of what a run wrote, before its teardown, as the reconciler drives it; a protocol.

The reconciler begins it once nothing of the run runs any more, asks how far it is, and goes on with
the teardown when it is done, has failed for good, or makes no progress any more.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from runtime.control.values import StoredRun

MAX_AGAIN = 3
"""So often in a row a capture is begun again by a next server without anything more being kept."""

CAPTURE_LIMIT_S = 900.0
"""After so long in which nothing more is kept, a teardown goes on with capture=incomplete.

Large checkpoints take longer than this altogether, and no GPU waits for them.
"""


class CaptureState(StrEnum):
    """Where a capture is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """For good; what may be tried again stays RUNNING."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureReport:
    """How far a capture is; `message` is for the run's reader."""

    state: CaptureState
    message: str = ""
    idle_s: float | None = None
    """For how long nothing more has been kept, None where nobody has counted."""
    had_turn: bool = False
    """This server has begun with it: it does not wait for others any more."""
    has_kept: bool = False
    """This server has kept more than was there, so that the next one finds it."""


class CaptureNote(StrEnum):
    """What the journal says of a capture between its begin and its end."""

    AGAIN = "begun again by the next server"
    KEPT = "more is kept"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureMark:
    """When a capture began, or was first begun again since more of it was kept; and how often."""

    since: datetime
    num_again: int = 0
    is_here: bool = False
    """This server began it, or has said so."""

    def after(self, note: CaptureNote, time: datetime) -> "CaptureMark":
        """Return what follows from a note of the journal."""
        if note is CaptureNote.KEPT:
            return CaptureMark(since=time)
        since = self.since if self.num_again else time
        return CaptureMark(since=since, num_again=self.num_again + 1)


class Capturer(Protocol):
    """Captures runs; every method returns at once, and is safe to call from several threads."""

    def capture(self, run: StoredRun) -> CaptureReport:
        """Begin to capture a run, or say how far it is; goes on with what another server began."""
        ...

    def forget(self, run: StoredRun) -> None:
        """Stop the capture of a run, which is over by now: nobody asks for it any more."""
        ...


class NoCapture:
    """Leaves what runs wrote where it is: their run directories outlive their teardown."""

    def capture(self, run: StoredRun) -> CaptureReport:
        """Say that there is nothing to do."""
        return CaptureReport(state=CaptureState.DONE)

    def forget(self, run: StoredRun) -> None:
        """Do nothing."""
