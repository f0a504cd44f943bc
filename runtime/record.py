"""The store of RunRecords on the local target: `record.json` in the run directory.

Every write is a compare-and-set: under a lock, on the version that was read, renamed into place.
The record itself, and which change may be made to it, is `runtime.run_record`.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from runtime.errors import RunStateError
from runtime.run_record import (
    ExitDetails,
    RecordConflictError,
    RunRecord,
    StateChange,
    advanced,
    begun,
    check_begin,
    over_message,
    parse_record,
    with_aftermath,
    with_warning,
)
from runtime.states import Capture, RunState, Teardown

__all__ = [
    "ExitDetails",
    "RecordConflictError",
    "RunRecord",
    "StateChange",
    "add_warning",
    "advance",
    "begin_attempt",
    "check_begin",
    "over_message",
    "read_record",
    "set_aftermath",
]


def read_record(path: Path) -> RunRecord | None:
    """Return the record in a file, None where there is none; raises RunStateError when damaged."""
    try:
        return parse_record(path.read_bytes(), source=path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def begin_attempt(
    path: Path,
    *,
    run_id: str,
    config_digest: str,
    attempt: int,
    preempted: bool = False,
) -> RunRecord:
    """Write QUEUED for a new attempt, as `begun` says."""
    return _change(
        path,
        lambda before: begun(
            before,
            run_id=run_id,
            config_digest=config_digest,
            attempt=attempt,
            preempted=preempted,
        ),
    )


def advance(
    path: Path,
    state: RunState,
    *,
    attempt: int,
    reason: str = "",
    exit_details: ExitDetails | None = None,
) -> RunRecord:
    """Write one transition of an attempt, as `advanced` says, and return the record."""
    return _change(
        path,
        lambda before: advanced(
            before, state, attempt=attempt, reason=reason, exit_details=exit_details
        ),
    )


def set_aftermath(
    path: Path,
    *,
    attempt: int,
    teardown: Teardown | None = None,
    capture: Capture | None = None,
    expected_version: int | None = None,
) -> RunRecord:
    """Write what became of the run's resources or artifacts, as `with_aftermath` says."""
    return _change(
        path,
        lambda before: with_aftermath(
            before,
            attempt=attempt,
            teardown=teardown,
            capture=capture,
            expected_version=expected_version,
        ),
    )


def add_warning(path: Path, warning: str, *, attempt: int) -> RunRecord:
    """Write a warning about an attempt that goes on."""
    return _change(path, lambda before: with_warning(before, warning, attempt=attempt))


def _change(path: Path, make: Callable[[RunRecord | None], RunRecord]) -> RunRecord:
    with _locked(path):
        before = read_record(path)
        try:
            after = make(before)
        except RunStateError as error:
            if before is not None:
                raise
            raise RunStateError(f"{path}: {error}") from None
        if after is not before:
            _write(path, after)
        return after


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
