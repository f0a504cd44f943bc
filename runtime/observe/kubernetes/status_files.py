"""What an attempt was launched with and how it ended, from the status files of its wrappers.

For a run whose stack is destroyed, or whose pods are gone: its run directory is not.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from runtime import naming
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.observe.kubernetes.run_files import RunFiles, status_folder

_MAX_FILES = 200

CUT_OFF = "lost"
"""State of a component whose wrapper had no time to say how it ended."""


def launched_by_files(files: RunFiles, run_id: str, attempt: int) -> LaunchedRun:
    """Return the pods that the attempt's status files tell of; none where there are none.

    Raises FilesUnavailableError.
    """
    found = [_pod(status) for status in _statuses(files, run_id, attempt)]
    pods = tuple(pod for pod in found if pod is not None)
    return LaunchedRun(run_id=run_id, attempt=attempt, pods=pods)


def ends_by_files(files: RunFiles, run_id: str, attempt: int) -> dict[str, tuple[str, str]]:
    """Return state and reason of each component that had started and has no pod any more.

    Raises FilesUnavailableError.
    """
    return {
        str(status["component"]): (
            str(status.get("outcome") or CUT_OFF),
            str(status.get("reason") or ""),
        )
        for status in _statuses(files, run_id, attempt)
        if "component" in status
    }


def _statuses(files: RunFiles, run_id: str, attempt: int) -> Iterator[dict[str, Any]]:
    folder = status_folder(attempt)
    names = [name for name in files.names(run_id, folder) if _is_status(name)]
    for name in names[:_MAX_FILES]:
        piece = files.read(run_id, f"{folder}/{name}")
        try:
            found = json.loads(piece.data) if piece is not None else None
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _is_status(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _pod(status: Mapping[str, Any]) -> LaunchedPod | None:
    if "component" not in status or "log" not in status:
        return None
    component, log = str(status["component"]), str(status["log"])
    role = component.split("-", 1)[0]
    is_server = role == naming.ENV_SERVER
    place = PurePosixPath(log)
    return LaunchedPod(
        key="",
        component=component,
        role=role,
        log=log,
        source=str(PurePosixPath(*place.parts[2:]).with_suffix("")) if is_server else "",
        split=place.parts[1] if is_server and len(place.parts) > 1 else "",
    )
