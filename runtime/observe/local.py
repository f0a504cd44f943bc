"""Observation of a run on the local target: status files, /proc, the metrics file; no Pulumi.

Reads only. Called by the supervisor's loop, by its client where the supervisor is dead, and by the
CLI's `components`, `wait` and `logs`.
"""

import os
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from runtime import limits, naming
from runtime.artifacts import RunDirectory
from runtime.launch.components import build_components
from runtime.local_state import LocalRun, read_index
from runtime.observe.judge import ComponentState, ComponentStatus, Observation, PlanFacts
from runtime.plan import RunPlan, plan_from_json
from runtime.processes import ProcessId, is_alive, marked_processes
from runtime.progress import last_step_in

_TAIL_BYTES = 64 * 1024


class StatusFile(BaseModel):
    """A wrapper's status file; keys of a newer wrapper are let through."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    component: str
    log: str
    wrapper_pid: int
    wrapper_start_ticks: int
    pid: int | None = None
    start_ticks: int | None = None
    start: float
    heartbeat: float
    end: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    outcome: str | None = None
    reason: str = ""
    end_mark: bool = False


def observe(run: LocalRun) -> Observation:
    """Return what is seen of one attempt of a run now."""
    entry = read_index(run.state_path, run.run_id)
    is_supervised = entry is not None and entry.attempt == run.attempt and entry.is_supervised
    supervisor = {entry.supervisor} if entry is not None else set()
    return Observation(
        time=time.time(),
        components=read_components(run.directory, run.attempt),
        is_supervised=is_supervised,
        processes=run_processes(run) - supervisor,
        last_step=last_step(run.directory.metrics),
    )


def watch(run: LocalRun) -> Observation:
    """Return what the supervisor needs to see twice a second; no scan of /proc."""
    components = read_components(run.directory, run.attempt)
    is_ending = any(one.state is ComponentState.COMPLETED for one in components)
    return Observation(
        time=time.time(),
        components=components,
        is_supervised=True,
        last_step=last_step(run.directory.metrics) if is_ending else None,
    )


def read_components(directory: RunDirectory, attempt: int) -> tuple[ComponentStatus, ...]:
    """Return the components of an attempt that have started, in the order of starting."""
    found = []
    for path in directory.status_folder(attempt).glob("[!.]*.json"):
        try:
            status = StatusFile.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        found.append(_component(status))
    return tuple(sorted(found, key=lambda one: (one.start, one.name)))


def run_processes(run: LocalRun, *, spare: frozenset[int] = frozenset()) -> frozenset[ProcessId]:
    """Return every process of the attempt, its supervisor among them."""
    name, mark = naming.ENV_RUN_MARK.encode(), run.mark.encode()
    return marked_processes(lambda environment: environment.get(name) == mark, spare=spare)


def last_step(metrics: Path) -> int | None:
    """Return the highest step in the last part of the metrics file, None where there is none."""
    return last_step_in(tail_lines(metrics, num_lines=200))


def last_lines(directory: RunDirectory, attempt: int, log: str) -> tuple[str, ...]:
    """Return the last lines of a component's log, as a failure keeps them."""
    lines = tail_lines(directory.logs(attempt) / log, num_lines=limits.LAST_LOG_LINES)
    return tuple(line[: limits.MAX_KEPT_LINE_CHARS] for line in lines)


def tail_lines(path: Path, *, num_lines: int) -> list[str]:
    """Return at most the last `num_lines` lines of a file's last 64 KiB; none without a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
    if size > _TAIL_BYTES and len(lines) > 1:
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
    return [line.rpartition("\r")[2].replace("\0", "") for line in lines[-num_lines:]]


def plan_facts(directory: RunDirectory) -> PlanFacts:
    """Return what a judge needs of the plan in the run directory; nothing without a plan."""
    try:
        plan = plan_from_json(directory.plan.read_bytes())
    except (OSError, ValidationError):
        return PlanFacts()
    return PlanFacts(components=planned_components(plan), max_steps=plan.max_steps)


def planned_components(plan: RunPlan) -> tuple[str, ...]:
    """Return the names of a plan's components in the order of starting."""
    return tuple(component.name for component in build_components(plan))


def _component(status: StatusFile) -> ComponentStatus:
    wrapper = ProcessId(status.wrapper_pid, status.wrapper_start_ticks)
    has_process = status.pid is not None and status.start_ticks is not None
    return ComponentStatus(
        name=status.component,
        state=_state(status, wrapper),
        log=status.log,
        wrapper=wrapper,
        process=ProcessId(status.pid or 0, status.start_ticks or 0) if has_process else None,
        start=status.start,
        heartbeat=status.heartbeat,
        end=status.end,
        exit_code=status.exit_code,
        signal=status.signal,
        reason=status.reason,
        end_mark=status.end_mark,
    )


def _state(status: StatusFile, wrapper: ProcessId) -> ComponentState:
    if status.outcome in {"completed", "failed", "ended"}:
        return ComponentState(status.outcome)
    return ComponentState.RUNNING if is_alive(wrapper) else ComponentState.LOST
