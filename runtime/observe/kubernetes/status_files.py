"""What an attempt was launched with, from the status files that its wrappers left.

For a run whose stack is destroyed: its ConfigMap is gone, its run directory is not.
"""

import json
from pathlib import PurePosixPath

from runtime import naming
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.observe.kubernetes.run_files import RunFiles, status_folder

_MAX_FILES = 200


def launched_by_files(files: RunFiles, run_id: str, attempt: int) -> LaunchedRun:
    """Return the pods that the attempt's status files tell of; none where there are none.

    Raises FilesUnavailableError.
    """
    folder = status_folder(attempt)
    names = [name for name in files.names(run_id, folder) if _is_status(name)]
    pods = []
    for name in names[:_MAX_FILES]:
        piece = files.read(run_id, f"{folder}/{name}")
        pod = _pod(piece.data) if piece is not None else None
        if pod is not None:
            pods.append(pod)
    return LaunchedRun(run_id=run_id, attempt=attempt, pods=tuple(pods))


def _is_status(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _pod(data: bytes) -> LaunchedPod | None:
    try:
        found = json.loads(data)
        component, log = str(found["component"]), str(found["log"])
    except (ValueError, TypeError, KeyError):
        return None
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
