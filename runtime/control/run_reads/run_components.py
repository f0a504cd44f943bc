"""The components of a run by its plan, and what their wrappers say of them."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from runtime import limits, naming
from runtime.artifacts import RunDirectory
from runtime.control.planned import RunComponent, planned_components
from runtime.control.readings import Component
from runtime.control.run_source import RunSource
from runtime.control.values import StoredRun

_RELATIVE = RunDirectory(Path())
_MAX_STATUS_BYTES = 1 << 20
_OUTCOMES = {"completed": "COMPLETED", "failed": "FAILED", "ended": "STOPPED"}


def run_components(run: StoredRun, source: RunSource | None) -> tuple[RunComponent, ...]:
    """Return the components of a run; of one whose plan cannot be read, those that have started."""
    planned = planned_components(run)
    return planned or (tuple(_started(run, source)) if source is not None else ())


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
        data = source.read(f"{folder}/{entry.name}", 0, _MAX_STATUS_BYTES)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield entry.name.removesuffix(".json"), found
