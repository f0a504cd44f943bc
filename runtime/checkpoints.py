"""Checkpoints as folders: which steps a run directory holds complete ones of.

Reads names only, needs no torch. The embedded engine writes a checkpoint under a temporary name and
renames it, so a folder named step_N is complete.
"""

from collections.abc import Iterable
from pathlib import Path


def checkpoint_steps(checkpoints: Path) -> list[int]:
    """Return the steps of the complete checkpoints, ascending; empty where there is no folder."""
    if not checkpoints.is_dir():
        return []
    return steps_of(entry.name for entry in checkpoints.iterdir() if entry.is_dir())


def steps_of(names: Iterable[str]) -> list[int]:
    """Return the steps that names of folders stand for, ascending; other names are left out."""
    numbers = (name.removeprefix("step_") for name in names if name.startswith("step_"))
    return sorted(int(number) for number in numbers if number.isdigit())


def last_checkpoint_step(checkpoints: Path) -> int | None:
    """Return the newest step that a run can resume from, or None."""
    steps = checkpoint_steps(checkpoints)
    return steps[-1] if steps else None
