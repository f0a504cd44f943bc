"""The components of a run by its plan, and what their wrappers say of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from runtime import limits, naming
from runtime.artifacts import RunDirectory
from runtime.control.readings import Component
from runtime.control.run_source import RunSource, read_whole
from runtime.control.values import StoredRun
from runtime.launch.components import build_components
from runtime.plan import plan_from_json
from runtime.pod_names import host_name

_RELATIVE = RunDirectory(Path())
_MAX_STATUS_BYTES = 1 << 20
_OUTCOMES = {"completed": "COMPLETED", "failed": "FAILED", "ended": "STOPPED"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunComponent:
    """One component: where its log is below an attempt's log folder, and its pod's host name."""

    name: str
    role: str
    log: str
    split: str = ""
    source: str = ""
    pod_name: str = ""


def run_components(run: StoredRun, source: RunSource | None) -> tuple[RunComponent, ...]:
    """Return the components of a run; of one whose plan cannot be read, those that have started."""
    try:
        plan = plan_from_json(run.plan_json)
    except ValidationError:
        return tuple(_started(run, source)) if source is not None else ()
    is_local = plan.target == "local"
    return tuple(
        RunComponent(
            name=one.name,
            role=one.role.role,
            log=one.log,
            split=one.role.split,
            source=one.role.source,
            pod_name=one.name if is_local else host_name(run.run_id, run.attempt, one),
        )
        for one in build_components(plan)
    )


def read_components(
    run: StoredRun, source: RunSource | None, *, now: float
) -> tuple[Component, ...]:
    """Return the components of the current attempt with what their status files say."""
    known = run_components(run, source)
    statuses = dict(_statuses(run, source)) if source is not None else {}
    seen: dict[str, int] = {}
    found = []
    for one in known:
        is_server = one.role == naming.ENV_SERVER
        index = seen.get(one.source, 0) if is_server else None
        if is_server:
            seen[one.source] = seen.get(one.source, 0) + 1
        found.append(
            Component(
                name=one.name,
                role=one.role,
                pod_name=one.pod_name or one.name,
                status=_state(run, statuses.get(one.name), now),
                env_name=one.source if is_server else None,
                env_index=index,
            )
        )
    return tuple(found)


def _state(run: StoredRun, status: dict[str, object] | None, now: float) -> str:
    if status is None:
        return str(run.state) if run.is_over else "PENDING"
    outcome = _OUTCOMES.get(str(status.get("outcome")))
    if outcome is not None:
        return outcome
    heartbeat = status.get("heartbeat")
    is_stale = isinstance(heartbeat, int | float) and now - heartbeat > limits.HEARTBEAT_STALE_S
    return "LOST" if is_stale or run.is_over else "RUNNING"


def _started(run: StoredRun, source: RunSource) -> Iterator[RunComponent]:
    for name, status in _statuses(run, source):
        log = str(status.get("log") or f"{name}.log")
        role = name.split("-", 1)[0]
        place = PurePosixPath(log)
        is_server = role == naming.ENV_SERVER
        yield RunComponent(
            name=name,
            role=role,
            log=log,
            split=place.parent.name if is_server else "",
            source=place.stem if is_server else "",
        )


def _statuses(run: StoredRun, source: RunSource) -> Iterator[tuple[str, dict[str, object]]]:
    folder = str(_RELATIVE.status_folder(run.attempt))
    for entry in source.entries(folder):
        if entry.name.startswith(".") or not entry.name.endswith(".json"):
            continue
        data = read_whole(source, f"{folder}/{entry.name}", max_bytes=_MAX_STATUS_BYTES)
        try:
            found = json.loads(data or b"")
        except ValueError:
            continue
        if isinstance(found, dict):
            yield entry.name.removesuffix(".json"), found
