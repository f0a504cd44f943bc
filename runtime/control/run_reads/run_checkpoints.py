"""The checkpoints of a run: those in its run directory, or the index that was captured of them."""

from datetime import UTC, datetime

from runtime.checkpoints import unfinished_step_of
from runtime.control.captured_source import CapturedSource
from runtime.control.readings import Checkpoint
from runtime.control.run_capture.chosen_files import (
    CHECKPOINTS_FOLDER,
    FoundCheckpoint,
    found_checkpoints,
)
from runtime.control.run_source import moment
from runtime.control.run_sources import RunFolder

READY = "READY"
PENDING = "PENDING"

_UNKNOWN = datetime.fromtimestamp(0, UTC)
"""When a checkpoint was made whose files have no time that could be one."""

_BEING_WRITTEN_S = 60.0
"""prime-rl writes a checkpoint under its own name: a young newest one may not be whole."""


def read_checkpoints(run_id: str, folder: RunFolder, *, now: float) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run, oldest first."""
    source = folder.source
    if isinstance(source, CapturedSource):
        return _captured(run_id, source)
    found = found_checkpoints(source)
    checkpoints = []
    for one in found:
        is_newest = folder.is_live and one is found[-1]
        is_whole = folder.is_local or not is_newest or now - one.mtime > _BEING_WRITTEN_S
        checkpoints.append(
            _checkpoint(run_id, one, source.url(one.path), READY if is_whole else PENDING)
        )
    if folder.is_live:
        for entry in source.entries(CHECKPOINTS_FOLDER.rstrip("/")):
            step = unfinished_step_of(entry.name)
            if step is not None:
                path = f"{CHECKPOINTS_FOLDER}step_{step}"
                coming = FoundCheckpoint(step=step, path=path, size=0, mtime=entry.mtime)
                checkpoints.append(_checkpoint(run_id, coming, source.url(path), PENDING))
    return tuple(checkpoints)


def _captured(run_id: str, source: CapturedSource) -> tuple[Checkpoint, ...]:
    manifest = source.manifest
    return tuple(
        Checkpoint(
            checkpoint_id=_id(run_id, one.step),
            step=one.step,
            storage_url=one.url,
            status=READY,
            created_at=moment(one.mtime) or _UNKNOWN,
            size_bytes=one.size,
            uploaded_at=manifest.captured_at if one.is_kept else None,
        )
        for one in manifest.checkpoints
    )


def _checkpoint(run_id: str, found: FoundCheckpoint, url: str, status: str) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=_id(run_id, found.step),
        step=found.step,
        storage_url=url,
        status=status,
        created_at=moment(found.mtime) or _UNKNOWN,
        size_bytes=found.size if status == READY else None,
    )


def _id(run_id: str, step: int) -> str:
    return f"{run_id}-step-{step}"
