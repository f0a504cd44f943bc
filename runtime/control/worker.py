"""The process of one operation: `python -m runtime.control.worker`, its request on stdin.

Started by `runtime.control.operator` in a session of its own, so that it finishes without its
server. The server writes into the run's folder that it begins, the worker how it ended. SIGINT ends
it early, as one interrupt of the engine.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from runtime.control import stacks
from runtime.control.dispatch import new_run_stack
from runtime.control.failures import failure_of
from runtime.control.locks import is_owner_dead, is_owner_over
from runtime.control.operations import (
    Operation,
    OperationKind,
    OperationReport,
    OperationState,
)
from runtime.control.projects import PerformedReport, RunFolder
from runtime.control.stacks import Project
from runtime.processes import this_process


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRequest:
    """An operation with the folder to work in, and the checkout whose program is run."""

    operation: Operation
    folder: str
    checkout: str
    ends_by: float


REQUEST = TypeAdapter(WorkerRequest)


def main() -> None:
    """Perform the operation on stdin; the exit code is 0 whatever became of it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # it may have been ignored in the server
        signal.signal(number, signal.default_int_handler)
    request = REQUEST.validate_json(sys.stdin.buffer.read())
    operation = request.operation
    folder = RunFolder(path=Path(request.folder), run_id=operation.run_id)
    report = perform(operation, folder, Path(request.checkout), os.environ)
    ended = PerformedReport(report=report, worker=this_process(), ends_by=request.ends_by)
    folder.write(ended)


def perform(
    operation: Operation, folder: RunFolder, checkout: Path, environ: Mapping[str, str]
) -> OperationReport:
    """Perform an operation and report how it ended; raises nothing."""
    try:
        project = folder.open_project(checkout, environ)
        _ACTS[operation.kind](project, operation)
    except BaseException as error:  # the process boundary: the report is how it is told
        failure = failure_of(error, operation.kind, secrets=operation.secrets.values())
        _say(failure.message)
        failed = report_of(operation, OperationState.FAILED)
        return replace(
            failed,
            code=failure.code,
            message=failure.message,
            # the values are nowhere any more
            is_retryable=failure.is_retryable and not operation.secrets,
            finished_at=datetime.now(UTC),
        )
    done = report_of(operation, OperationState.DONE)
    return replace(done, finished_at=datetime.now(UTC))


def report_of(operation: Operation, state: OperationState) -> OperationReport:
    """Return the report of an operation in a state."""
    return OperationReport(
        operation_id=operation.operation_id,
        kind=operation.kind,
        run_id=operation.run_id,
        attempt=operation.attempt,
        state=state,
    )


def failed_report(operation: Operation, code: str, message: str) -> OperationReport:
    """Return the report of an operation that failed without a word of its worker."""
    return replace(
        report_of(operation, OperationState.FAILED),
        code=code,
        message=message,
        is_retryable=operation.kind is not OperationKind.MAKE,
        finished_at=datetime.now(UTC),
    )


def _make(project: Project, operation: Operation) -> None:
    stack = operation.run_id
    if stack in stacks.list_stacks(project):  # an earlier try was cut off; it holds nothing yet
        stacks.break_lock(project, stack, _say)
        stacks.remove_stack(project, stack)
    settings = _with_attempt(operation)
    new_run_stack(project, stack, settings, secrets=operation.secrets)


def _set(project: Project, operation: Operation) -> None:
    stacks.write_settings(project, operation.run_id, _plain(operation))
    for name, value in operation.secrets.items():
        stacks.set_secret(project, operation.run_id, f"env.{name}", value)


def _up(project: Project, operation: Operation) -> None:
    stack = operation.run_id
    stacks.recover(project, stack, _say)
    if operation.is_adopted:  # a path of the person's project is none here: the text is given
        stacks.refresh_settings(project, stack, without={"config", "attempt"})
    stacks.write_settings(project, stack, _with_attempt(operation))
    if stacks.read_settings(project, stack).get("resumeFrom"):
        from runtime.control.checkpoint_return import bring_first_checkpoint  # half a second

        bring_first_checkpoint(project, stack, os.environ, _say)
    stacks.up(project, stack, _say)


def _destroy(project: Project, operation: Operation) -> None:
    if operation.run_id in stacks.list_stacks(project):
        if _is_volume(operation):
            stacks.recover(project, operation.run_id, _say)
            stacks.unprotect(project, operation.run_id, _say)
        if operation.is_adopted:  # or this update would be the one without any settings
            stacks.refresh_settings(project, operation.run_id)
        stacks.destroy(project, operation.run_id, _say)


def _remove(project: Project, operation: Operation) -> None:
    if operation.is_adopted:
        return
    if operation.run_id in stacks.list_stacks(project):
        stacks.break_lock(project, operation.run_id, _say)
        stacks.remove_stack(project, operation.run_id, _say)
    else:
        stacks.forget_stack(project, operation.run_id)


def _recover(project: Project, operation: Operation) -> None:
    if operation.run_id in stacks.list_stacks(project):
        is_over = operation.has_server_died and not operation.is_adopted
        is_dead = is_owner_over if is_over else is_owner_dead
        stacks.recover(project, operation.run_id, _say, is_dead=is_dead, is_probed=True)


_ACTS = {
    OperationKind.MAKE: _make,
    OperationKind.SET: _set,
    OperationKind.UP: _up,
    OperationKind.RESUME: _up,
    OperationKind.DESTROY: _destroy,
    OperationKind.REMOVE: _remove,
    OperationKind.RECOVER: _recover,
}


def _is_volume(operation: Operation) -> bool:
    return operation.settings.get("kind") == "volume"


def _with_attempt(operation: Operation) -> dict[str, object]:
    attempt = {} if _is_volume(operation) else {"attempt": operation.attempt}
    return {**attempt, **_plain(operation)}


def _plain(operation: Operation) -> dict[str, object]:
    """Return the settings as they are written: a list is a JSON text, as Pulumi.yaml declares."""
    return {
        key: json.dumps(value) if isinstance(value, list | dict) else value
        for key, value in operation.settings.items()
        if value is not None
    }


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk must not end an operation
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
