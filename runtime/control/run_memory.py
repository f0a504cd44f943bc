"""What a server remembers of a run between two passes; all of it can be found out again.

Lost with the server: whoever takes over asks the store's journal, or does once more what may be
repeated.
"""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from runtime.control.captures import CaptureMark, CaptureNote
from runtime.control.operations import StoredOperation
from runtime.control.places import PodUse
from runtime.control.situations import PauseMark
from runtime.control.store import events
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState

PAUSE = "pause"
CAPTURE = "capture"
"""Kinds of events that tell when a pause or a capture began, and how the capture went on."""

_UNKNOWN = "unknown"
EndKey = tuple[object, ...]


@dataclass(kw_only=True, slots=True)
class RunMemory:
    """The memory of one run; `is_acting` while something slow is done for it elsewhere."""

    is_acting: bool = False
    ended: EndKey | None = None
    pause: PauseMark | None = None
    capture: CaptureMark | None = None
    uses: dict[tuple[int, str], PodUse] = field(default_factory=dict)
    metered: int = 0
    """The attempt up to which the usage of earlier ones has ended."""
    trouble: str = ""
    num_refused: int = 0
    """How often in a row an `up` found no room; the next server begins with short waits again."""

    def has_forgotten(self, run: StoredRun) -> bool:
        """Tell whether another server knew of this run what this one does not."""
        needs_pause = run.state is RunState.PAUSING and self.pause is None
        return needs_pause or (run.capture is Capture.RUNNING and self.capture is None)

    def recall(self, connection: Connection, run: StoredRun) -> None:
        """Find that out from the journal."""
        for event in events.list_events(connection, run.run_id):
            if event.attempt != run.attempt:
                continue
            if event.kind == PAUSE:
                self.pause = _pause_of(event.message, event.time)
            elif event.kind == CAPTURE:
                self.capture = mark_after(self.capture, event.message, event.time)


def pause_message(mark: PauseMark) -> str:
    """Return what the journal says of a pause's beginning: a step, nothing, or that it is open."""
    if not mark.is_known:
        return _UNKNOWN
    return "" if mark.step is None else str(mark.step)


def _pause_of(message: str, time: datetime) -> PauseMark:
    step = int(message) if message.isdigit() else None
    return PauseMark(since=time, step=step, is_known=message != _UNKNOWN)


def mark_after(mark: CaptureMark | None, message: str, time: datetime) -> CaptureMark:
    """Return the mark of a capture after an event of the journal, the first of which begins it."""
    for note in CaptureNote:
        if mark is not None and message == f"{Capture.RUNNING}: {note}":
            return mark.after(note, time)
    return mark or CaptureMark(since=time)


def end_key(run: StoredRun, newest: StoredOperation | None) -> EndKey:
    """Return what must stay the same for an end of the workloads to count as done."""
    operation = (newest.operation_id, newest.state) if newest is not None else ()
    return (run.attempt, run.wish, *operation)
