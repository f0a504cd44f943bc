"""A worker as its server sees it: started, waited for with a watchdog, ended with its engine.

One SIGINT, which the worker passes on to its engine; after the grace everything in the worker's
session is killed. What was ended at its limit is told as late. Supervisors of local runs are in
sessions of their own and live on.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from runtime.control.engine_call import LateError
from runtime.control.failures import INTERRUPTED, failure_of
from runtime.control.operations import OperationState
from runtime.control.projects import PerformedReport, RunFolder, open_log
from runtime.control.worker import REQUEST, WorkerRequest, report_of
from runtime.processes import (
    ProcessId,
    end_processes,
    identify,
    is_alive,
    send_signal,
    session_processes,
)

_POLL_S = 0.1
_KILL_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """What a worker is started with, and what ends it early.

    `grace_s` is from the one SIGINT, after which its engine saves the state, to SIGKILL.
    """

    environ: Mapping[str, str] = field(repr=False)
    interrupted: threading.Event
    grace_s: float


def run_worker(
    request: WorkerRequest,
    folder: RunFolder,
    *,
    watch: Watch,
) -> int:
    """Run a worker to its end and return its exit code; `watch` may ask it to end early.

    The report in the folder names the worker before it knows what to do, so that no server that
    comes later takes a living operation for a dead one.
    """
    log = open_log(folder)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "runtime.control.worker"],
            cwd=folder.path,
            env=dict(watch.environ),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    worker = identify(process.pid)  # none: it died at its start, and its exit code tells
    report = report_of(request.operation, OperationState.RUNNING)
    try:
        folder.write(PerformedReport(report=report, worker=worker, ends_by=request.ends_by))
        _tell(process, REQUEST.dump_json(request))
    except BaseException:  # a full disk: what has no report must not begin
        process.kill()
        process.wait()
        raise
    if worker is None:
        return process.wait()
    is_late = _await_end(process, worker, request.ends_by, watch)
    if is_late:
        _tell_late(folder)
    return process.wait()


def _tell(process: subprocess.Popen[bytes], request: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def is_performed(folder: RunFolder, performed: PerformedReport) -> bool:
    """Tell whether anything of an operation lives; what is past its end is killed and told late."""
    worker = performed.worker
    if worker is None:
        return False
    left = session_processes(worker)
    if left and time.time() > performed.ends_by:
        end_session(worker, grace_s=0.0)
        _tell_late(folder)
        return False
    return bool(left)


def interrupt(performed: PerformedReport) -> None:
    """Interrupt the worker of an operation, or its engine where the worker is dead."""
    worker = performed.worker
    if worker is not None and is_alive(worker):
        send_signal(worker, signal.SIGINT)
    elif worker is not None:
        for process in session_processes(worker):
            send_signal(process, signal.SIGINT)


def end_session(worker: ProcessId, *, grace_s: float) -> None:
    """End what a worker left in its session: SIGTERM, on which an engine saves its state."""
    end_processes(lambda: session_processes(worker), grace_s=grace_s, deadline_s=_KILL_S)


def _await_end(
    process: subprocess.Popen[bytes],
    worker: ProcessId,
    ends_by: float,
    watch: Watch,
) -> bool:
    """Wait for a worker, and end it at its limit or when asked; tell whether it was its limit."""
    grace_s = watch.grace_s
    kill_at: float | None = None
    is_late = False
    while process.poll() is None:
        now = time.time()
        if kill_at is None and (watch.interrupted.is_set() or now > ends_by - grace_s):
            kill_at = now + grace_s
            is_late = not watch.interrupted.is_set()
            send_signal(worker, signal.SIGINT)
        elif kill_at is not None and now > kill_at:
            break
        time.sleep(_POLL_S)
    # a worker that ended as it should has left nothing
    end_session(worker, grace_s=0.0 if process.poll() is None else grace_s)
    return is_late


def _tell_late(folder: RunFolder) -> None:
    """Write that an operation was ended at its limit, unless it came to an end of its own."""
    found = folder.read()
    if found is None or (found.report.finished_at and found.report.code != INTERRUPTED):
        return
    kind = found.report.kind
    failure = failure_of(LateError(f"{kind} was not done in its time and was ended"), kind)
    report = replace(
        found.report,
        state=OperationState.FAILED,
        code=failure.code,
        message=failure.message,
        is_retryable=failure.is_retryable,
        finished_at=datetime.now(UTC),
    )
    folder.write(replace(found, report=report))
