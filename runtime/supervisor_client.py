"""The client of local supervisors: start, stop and release a run and its components.

The only door to `runtime.supervisor`; called by the dynamic providers of infra and by the CLI. It
holds no state: everything is in the state directory, the run directory and /proc.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runtime import claims, naming
from runtime.errors import NotFoundError, RunStateError, SupervisorError
from runtime.launch.environment import base_environment
from runtime.local_state import LocalRun, barred_attempt, read_cluster, run_lock
from runtime.observe.local import run_processes, tail_lines
from runtime.processes import ProcessId, is_alive, this_process
from runtime.record import RunRecord, advance, begin_attempt, check_begin, over_message, read_record
from runtime.run_end import DESTROYED, is_supervised, release_run, settle_locked, settle_run
from runtime.states import RunState
from runtime.supervisor_wire import (
    START_RUN,
    Described,
    DescribeRequest,
    Started,
    StartRequest,
    StartRun,
    UnreachableError,
    ask,
)

__all__ = [
    "DESTROYED",
    "Capacity",
    "ComponentHandle",
    "LocalRun",
    "RunHandle",
    "StartRun",
    "capacity",
    "check_start",
    "component_is_alive",
    "release_run",
    "settle_run",
    "start_component",
    "start_run",
    "stop_component",
    "stop_run",
]

_START_TIMEOUT_S = 60.0
_PREPARE_TIMEOUT_S = 120.0
_ASK_TIMEOUT_S = 10.0
_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHandle:
    """A supervised run: its supervisor, its port block and its devices (one a slot, "" = CPU)."""

    run: LocalRun
    supervisor_pid: int
    base_port: int
    devices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentHandle:
    """A started component; `pid` and `start_ticks` identify its wrapper."""

    component: str
    pid: int
    start_ticks: int
    ports: tuple[int, ...]
    log: str
    started_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The slots of a local cluster: all of them, and those in use by run id."""

    num_slots: int
    used: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_free(self) -> int:
        """Return the slots that no run holds."""
        return self.num_slots - sum(self.used.values())


def check_start(request: StartRun) -> None:
    """Raise what `start_run` would raise for the record or the bar; claims and starts nothing.

    For a provider's `check` and for previews: RunStateError with the fix in its message when the
    attempt is over or barred, or runs with another config.
    """
    run = request.run
    if run.attempt <= barred_attempt(run.state_path, run.run_id):
        raise RunStateError(over_message(run.run_id, run.attempt, what="was destroyed"))
    record = read_record(run.directory.record)
    if record is not None:
        check_begin(record, run.attempt, config_digest=request.config_digest)


def capacity(run: LocalRun) -> Capacity:
    """Return the cluster's slots, those of the run itself not counted as used."""
    held = claims.read_claims(run.state_path)
    used = {claim.run_id: len(claim.slots) for claim in held if claim.run_id != run.run_id}
    return Capacity(num_slots=len(read_cluster(run.state_path).devices), used=used)


def start_run(request: StartRun) -> RunHandle:
    """Start the supervisor of one attempt and return once it answers; idempotent while it lives.

    Raises RunStateError (terminal, barred, other config), RefusedError (slots or ports do not fit),
    SupervisorError (it did not come up).
    """
    run = request.run
    assert run.state_path.is_absolute(), "the supervisor has another working directory"
    assert run.run_path.is_absolute(), "the supervisor has another working directory"
    read_cluster(run.state_path)
    with run_lock(run):
        check_start(request)
        if is_supervised(run):
            return _describe(run)
        _check_fresh(run)
        claims.claim(
            run,
            num_slots=request.num_slots,
            num_ports=request.num_ports,
            owner=this_process(),
        )
        try:
            begin_attempt(
                run.directory.record,
                run_id=run.run_id,
                config_digest=request.config_digest,
                attempt=run.attempt,
            )
            advance(run.directory.record, RunState.PENDING, attempt=run.attempt)
            _launch(replace(request, starter=this_process()))
            return _await_supervisor(run)
        except BaseException:
            if not run_processes(run):
                claims.release(run)
            raise


def start_component(
    run: LocalRun, component: str, secret_env: Mapping[str, str]
) -> ComponentHandle:
    """Start one planned component; returns the running one when it was started before.

    Raises RunStateError when the run is over, NotFoundError for a component that is not planned,
    SupervisorError when the supervisor is gone or the component cannot be prepared.
    """
    request = StartRequest(component=component, secret_env=dict(secret_env))
    try:
        reply = ask(run, request, timeout_s=_PREPARE_TIMEOUT_S)
    except UnreachableError:
        record = settle_run(run)
        if record is not None and record.is_over:
            what = f"is over ({record.state}: {record.reason})"
            raise RunStateError(over_message(run.run_id, run.attempt, what=what)) from None
        raise
    assert isinstance(reply, Started)
    return ComponentHandle(
        component=reply.component,
        pid=reply.pid,
        start_ticks=reply.start_ticks,
        ports=reply.ports,
        log=reply.log,
        started_at=reply.started_at,
    )


def stop_component(run: LocalRun, *, reason: str = DESTROYED) -> None:
    """End a component's run, since a run that misses one component could only fail.

    Idempotent, and an older attempt never touches a newer one. A run without a record is left to
    `release_run`.
    """
    with contextlib.suppress(NotFoundError):
        stop_run(run, reason=reason)


def component_is_alive(component: ComponentHandle) -> bool:
    """Tell whether the component's wrapper still runs."""
    return is_alive(ProcessId(component.pid, component.start_ticks))


def stop_run(run: LocalRun, *, reason: str) -> RunRecord:
    """Stop a live run and return its record, STOPPED once no process of it is left.

    Returns the record as it is when the attempt is over. Raises NotFoundError where there is no
    record.
    """
    record = read_record(run.directory.record)
    if record is None:
        raise NotFoundError(f"{run.run_id}: there is no record in {run.run_path}")
    if record.attempt == run.attempt and not record.is_over:
        release_run(run, reason=reason)
    return read_record(run.directory.record) or record


def _check_fresh(run: LocalRun) -> None:
    """Refuse an attempt whose supervisor died after it had started components."""
    record = read_record(run.directory.record)
    if record is None or record.attempt != run.attempt:
        return
    if record.state in {RunState.QUEUED, RunState.PENDING}:
        return
    settled = settle_locked(run)
    assert settled is not None
    what = f"is over ({settled.state}: {settled.reason})"
    raise RunStateError(over_message(run.run_id, run.attempt, what=what))


def _launch(request: StartRun) -> None:
    run = request.run
    environment = {
        **base_environment(os.environ, python=sys.executable),
        naming.ENV_RUN_MARK: run.mark,
        "PYTHONPATH": str(Path(__file__).parent.parent),  # the same code as here
    }
    with run.supervisor_log.open("ab") as log:
        starter = subprocess.Popen(
            [sys.executable, "-m", "runtime.supervisor", START_RUN.dump_json(request).decode()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=run.state_path,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):  # waiting for its socket will tell
            starter.wait(_START_TIMEOUT_S)


def _await_supervisor(run: LocalRun) -> RunHandle:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(UnreachableError):
            return _describe(run)
        if not run_processes(run):
            break
        time.sleep(_POLL_S)
    said = "\n".join(tail_lines(run.supervisor_log, num_lines=5))
    raise SupervisorError(
        f"{run.run_id}: its supervisor did not come up, see {run.supervisor_log}:\n{said}"
    )


def _describe(run: LocalRun) -> RunHandle:
    reply = ask(run, DescribeRequest(), timeout_s=_ASK_TIMEOUT_S)
    assert isinstance(reply, Described)
    return RunHandle(
        run=run,
        supervisor_pid=reply.pid,
        base_port=reply.base_port,
        devices=reply.devices,
    )
