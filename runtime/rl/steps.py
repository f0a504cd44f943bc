"""Step folders: `<root>/step_N`, made under a temporary name and renamed when whole.

Shared by broadcasts, rollouts and checkpoints of the embedded engine. Needs no torch.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime import checkpoints

STABLE = "STABLE"
"""Marker that a broadcast is whole (prime-rl's name)."""

PROGRESS = "progress.json"
"""The orchestrator's progress at a batch; it travels with the batch into the checkpoint."""


def step_folder(root: Path, step: int) -> Path:
    """Return the folder of a step."""
    return root / f"step_{step}"


def rank_file(rollouts: Path, step: int, rank: int) -> Path:
    """Return the batch file of a data-parallel rank."""
    return step_folder(rollouts, step) / f"rank_{rank}.bin"


def step_of(folder: Path) -> int | None:
    """Return the number of a step folder, None for any other name."""
    return checkpoints.step_of(folder.name)


def list_steps(root: Path) -> list[int]:
    """Return the steps that have a folder, ascending."""
    if not root.is_dir():
        return []
    return checkpoints.steps_of(entry.name for entry in root.iterdir())


def newest_broadcast(broadcasts: Path) -> int | None:
    """Return the newest version whose weights are whole."""
    for step in reversed(list_steps(broadcasts)):
        if (step_folder(broadcasts, step) / STABLE).exists():
            return step
    return None


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `target` when the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a `.tmp` name and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
