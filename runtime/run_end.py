"""The end of a local run from outside: stop, settle and release it, with or without a supervisor.

A run owns what carries its mark or name: processes, a claim, env files, a socket, an index entry.
Everything here is idempotent. Called through `runtime.supervisor_client`.
"""

import contextlib
import dataclasses
import time
from functools import partial

from runtime import claims, limits, naming
from runtime.component_process import remove_private
from runtime.errors import PaddockError, SupervisorError
from runtime.local_state import (
    LocalRun,
    bar_attempt,
    home_id,
    read_index,
    remove_index,
    remove_locks,
    run_lock,
)
from runtime.observe.judge import Transition, judge
from runtime.observe.local import last_lines, observe, plan_facts
from runtime.processes import ProcessId, end_processes, marked_processes
from runtime.record import (
    ExitDetails,
    RunRecord,
    advance,
    begin_attempt,
    read_record,
    set_aftermath,
)
from runtime.states import RunState, Teardown, is_terminal
from runtime.supervisor_wire import StopRequest, ask, remove_socket

DESTROYED = "destroyed while live"
"""The reason of a run whose stack was destroyed before its end."""

_ASK_TIMEOUT_S = 10.0
_SWEEP_GRACE_S = 5.0
_POLL_S = 0.05


def release_run(run: LocalRun, *, reason: str = DESTROYED, is_destroy: bool = False) -> None:
    """End everything that the run id owns up to this attempt, and bar the attempt from starting.

    Works with or without a supervisor, record or run directory; idempotent. A run that was live
    becomes STOPPED for this reason; after a destroy its record says that its teardown is done.
    Raises SupervisorError naming the pids that will not end.
    """
    if (run.state_path / "locks").is_dir():  # a cluster goes only when nothing runs on it
        with run_lock(run):
            _stop_supervisor(run, reason)
            verdict = _verdict(run)
            _sweep(run)
            _write_end(run, verdict or Transition(state=RunState.STOPPED, reason=reason))
    if is_destroy:
        _write_teardown(run)
        remove_locks(run)


def settle_run(run: LocalRun) -> RunRecord | None:
    """Return the record; where the supervisor died, first judge the run and free what it held."""
    record = read_record(run.directory.record)
    if record is None or record.is_over or record.attempt != run.attempt or is_supervised(run):
        return record
    if not (run.state_path / "locks").is_dir():
        return settle_locked(run)  # the cluster is gone: nobody else starts or ends the run
    with run_lock(run):
        return settle_locked(run)


def settle_locked(run: LocalRun) -> RunRecord | None:
    """Do what `settle_run` does; the caller holds the run's lock."""
    record = read_record(run.directory.record)
    if record is None or record.is_over or is_supervised(run):
        return record
    transition = judge(observe(run), record, plan_facts(run.directory))
    _sweep(run)
    return write_transition(run, transition) if transition is not None else record


def is_supervised(run: LocalRun) -> bool:
    """Tell whether the attempt's supervisor lives."""
    entry = read_index(run.state_path, run.run_id)
    return entry is not None and entry.attempt == run.attempt and entry.is_supervised


def write_transition(run: LocalRun, transition: Transition) -> RunRecord:
    """Write a transition into the record, with the end of the component that it is named after."""
    component = transition.component
    details = None
    if component is not None:
        details = ExitDetails(
            component=component.name,
            exit_code=component.exit_code,
            signal=component.signal,
            last_lines=last_lines(run.directory, run.attempt, component.log),
        )
    return advance(
        run.directory.record,
        transition.state,
        attempt=run.attempt,
        reason=transition.reason,
        exit_details=details,
    )


def _stop_supervisor(run: LocalRun, reason: str) -> None:
    """Let the supervisor end the run by itself, as long as it does so in time."""
    entry = read_index(run.state_path, run.run_id)
    if entry is None or entry.attempt > run.attempt or not entry.is_supervised:
        return
    with contextlib.suppress(PaddockError):
        ask(
            dataclasses.replace(run, attempt=entry.attempt),
            StopRequest(reason=reason),
            timeout_s=_ASK_TIMEOUT_S,
        )
    deadline = time.monotonic() + limits.STOP_GRACE_S + _ASK_TIMEOUT_S
    while entry.is_supervised and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _sweep(run: LocalRun) -> None:
    """End every process of the run id up to this attempt, and free what it holds."""
    if not end_processes(partial(_owned, run), grace_s=_SWEEP_GRACE_S):
        pids = ", ".join(str(process.pid) for process in sorted(_owned(run)))
        raise SupervisorError(
            f"{run.run_id}: processes {pids} do not end: see `ps -o pid,stat,cmd -p {pids}`, "
            "then destroy the run again"
        )
    claims.release(run)
    for attempt in range(1, run.attempt + 1):
        one = dataclasses.replace(run, attempt=attempt)
        remove_private(one)
        remove_socket(one)
    remove_index(run)


def _owned(run: LocalRun) -> frozenset[ProcessId]:
    prefix = naming.run_mark(home_id(run.state_path), run.run_id, 0).removesuffix("0").encode()
    name = naming.ENV_RUN_MARK.encode()

    def is_owned(environment: dict[bytes, bytes]) -> bool:
        mark = environment.get(name, b"")
        attempt = mark.removeprefix(prefix)
        return mark.startswith(prefix) and attempt.isdigit() and int(attempt) <= run.attempt

    return marked_processes(is_owned)


def _verdict(run: LocalRun) -> Transition | None:
    """Return how the run ended by itself, None where it was still live."""
    with contextlib.suppress(PaddockError):
        record = read_record(run.directory.record)
        if record is None or record.attempt != run.attempt:
            return None
        transition = judge(observe(run), record, plan_facts(run.directory))
        if transition is not None and is_terminal(transition.state):
            is_own = transition.component is not None or transition.state is RunState.COMPLETED
            return transition if is_own else None
    return None


def _write_end(run: LocalRun, transition: Transition) -> None:
    """Write the end into the record; bar the attempt where no record can be written."""
    try:
        if not run.run_path.is_dir():
            bar_attempt(run)
            return
        record = read_record(run.directory.record)
        if record is not None and record.attempt < run.attempt and not record.is_over:
            write_transition(dataclasses.replace(run, attempt=record.attempt), transition)
        if record is None or record.attempt < run.attempt:
            begin_attempt(
                run.directory.record, run_id=run.run_id, config_digest="", attempt=run.attempt
            )
        elif record.is_over or record.attempt > run.attempt:
            return
        write_transition(run, transition)
    except (PaddockError, OSError):
        bar_attempt(run)


def _write_teardown(run: LocalRun) -> None:
    """Write that nothing of the run is left; no destroy fails for want of a record."""
    with contextlib.suppress(PaddockError, OSError):
        record = read_record(run.directory.record)
        if record is None or not record.is_over or record.teardown is Teardown.DONE:
            return
        set_aftermath(
            run.directory.record,
            attempt=run.attempt,
            teardown=Teardown.DONE,
            expected_version=record.version,
        )
