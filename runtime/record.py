"""RunRecord: what is known of a run, one JSON, written once per transition by whoever observes.

On the local target it is `record.json` in the run directory. Every write is a compare-and-set:
under a lock, on the version that was read, renamed into place. Which transition may follow is
`runtime.states`; what happened is judged by `runtime.observe`.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from runtime import limits
from runtime.errors import RunStateError
from runtime.states import Capture, RunState, Teardown, is_terminal, may_follow


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class StateChange(_Stored):
    """One transition of a run."""

    state: RunState
    time: AwareDatetime
    reason: str = ""
    attempt: int


class ExitDetails(_Stored):
    """How the component ended that a failure is named after."""

    component: str
    exit_code: int | None = None
    signal: str | None = None
    last_lines: Annotated[tuple[str, ...], Field(max_length=limits.LAST_LOG_LINES)] = ()


class RunRecord(_Stored):
    """What is known of a run; `version` counts its writes."""

    run_id: str
    config_digest: str
    attempt: Annotated[int, Field(ge=1)]
    state: RunState
    reason: str = ""
    times: tuple[StateChange, ...] = ()
    """One entry a transition, those of earlier attempts included."""
    teardown: Teardown = Teardown.NONE
    capture: Capture = Capture.NONE
    exit: ExitDetails | None = None
    version: int = 1

    @property
    def is_over(self) -> bool:
        """Tell whether the current attempt has ended for good."""
        return is_terminal(self.state)

    @property
    def outcome(self) -> RunState | None:
        """Return the terminal state of the attempt, None while it lives."""
        return self.state if self.is_over else None


class RecordConflictError(RunStateError):
    """Somebody else wrote the record between the read and the write."""

    code = "record_conflict"


def read_record(path: Path) -> RunRecord | None:
    """Return the record in a file, None where there is none; raises RunStateError when damaged."""
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except ValidationError as error:
        raise RunStateError(
            f"{path}: not a run record ({error.error_count()} problems): "
            "move the file away to give up the run's history"
        ) from None


def begin_attempt(
    path: Path,
    *,
    run_id: str,
    config_digest: str,
    attempt: int,
    preempted: bool = False,
) -> RunRecord:
    """Write QUEUED for a new attempt; the same live attempt of the same config is left as it is.

    Raises RunStateError when the record is at a later attempt, over at this one, or still live at
    an earlier one that was not preempted.
    """
    with _locked(path):
        before = read_record(path)
        if before is not None:
            check_begin(before, attempt, config_digest=config_digest, preempted=preempted)
            if before.attempt == attempt:
                return before
        change = StateChange(
            state=RunState.QUEUED,
            time=datetime.now(UTC),
            reason="preempted" if preempted else "",
            attempt=attempt,
        )
        record = RunRecord(
            run_id=run_id,
            config_digest=config_digest,
            attempt=attempt,
            state=RunState.QUEUED,
            reason=change.reason,
            times=(*(before.times if before else ()), change),
            version=before.version + 1 if before else 1,
        )
        _write(path, record)
        return record


def advance(
    path: Path,
    state: RunState,
    *,
    attempt: int,
    reason: str = "",
    exit_details: ExitDetails | None = None,
) -> RunRecord:
    """Write one transition of an attempt and return the new record.

    Returns the record unchanged when it is in this state already. Raises RunStateError when the
    record is missing, at another attempt, or when the transition is not allowed.
    """
    with _locked(path):
        before = _current(path, attempt)
        if before.state is state:
            return before
        if not may_follow(before.state, state):
            raise RunStateError(
                f"{before.run_id}: {state} may not follow {before.state} in attempt {attempt}"
            )
        change = StateChange(state=state, time=datetime.now(UTC), reason=reason, attempt=attempt)
        after = before.model_copy(
            update={
                "state": state,
                "reason": reason,
                "times": (*before.times, change),
                "exit": exit_details,
                "version": before.version + 1,
            }
        )
        _write(path, after)
        return after


def set_aftermath(
    path: Path,
    *,
    attempt: int,
    teardown: Teardown | None = None,
    capture: Capture | None = None,
    expected_version: int | None = None,
) -> RunRecord:
    """Write what became of the run's resources or artifacts.

    Raises RecordConflictError when the record is not at the expected version.
    """
    with _locked(path):
        before = _current(path, attempt)
        if expected_version is not None and before.version != expected_version:
            raise RecordConflictError(
                f"{before.run_id}: the record is at version {before.version}, "
                f"not {expected_version}: read it again"
            )
        after = before.model_copy(
            update={
                "teardown": teardown or before.teardown,
                "capture": capture or before.capture,
                "version": before.version + 1,
            }
        )
        _write(path, after)
        return after


def check_begin(
    before: RunRecord, attempt: int, *, config_digest: str, preempted: bool = False
) -> None:
    """Raise RunStateError, with the fix, when an attempt may not begin or go on after this."""
    if attempt < before.attempt:
        raise RunStateError(
            f"{before.run_id} is at attempt {before.attempt}, attempt {attempt} is past: "
            f"`pulumi config set paddock:attempt {before.attempt}`"
        )
    if attempt == before.attempt and before.is_over:
        why = f": {before.reason}" if before.reason else ""
        raise RunStateError(
            over_message(before.run_id, attempt, what=f"is over ({before.state}{why})")
        )
    if attempt == before.attempt and before.config_digest != config_digest:
        raise RunStateError(
            f"{before.run_id}: attempt {attempt} is live with another config: put the config "
            f"back, or `paddock stop {before.run_id}` and start attempt {attempt + 1}"
        )
    if attempt > before.attempt and not (
        before.is_over or before.state is RunState.PAUSED or preempted
    ):
        raise RunStateError(
            f"{before.run_id}: attempt {before.attempt} is still {before.state}: "
            f"`paddock stop {before.run_id}` before attempt {attempt}"
        )


def over_message(run_id: str, attempt: int, *, what: str) -> str:
    """Return the refusal of a start at an attempt that is over, with both fixes."""
    return (
        f"{run_id}: attempt {attempt} {what} and does not start again: "
        f"`paddock resume {run_id}`, or `pulumi config set paddock:attempt {attempt + 1}` "
        "and `pulumi up`"
    )


def _current(path: Path, attempt: int) -> RunRecord:
    record = read_record(path)
    if record is None:
        raise RunStateError(f"{path}: there is no record of this run")
    if record.attempt != attempt:
        raise RunStateError(
            f"{record.run_id}: the record is at attempt {record.attempt}, not {attempt}"
        )
    return record


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, record: RunRecord) -> None:
    temporary = path.with_name(f".{path.name}.tmp")  # one writer at a time: the lock is held
    with temporary.open("w") as file:
        file.write(record.model_dump_json(indent=2))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
