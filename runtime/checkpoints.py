"""Step folders of a run directory, and which checkpoints among them are complete.

Reads names only, needs no torch. The embedded engine writes a checkpoint under a temporary name and
renames it, so a folder named step_N is complete.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_STEP = re.compile(r"step_(0|[1-9][0-9]{0,17})")


def checkpoint_steps(checkpoints: Path) -> list[int]:
    """Return the steps of the complete checkpoints, ascending; empty where there is no folder."""
    if not checkpoints.is_dir():
        return []
    return steps_of(entry.name for entry in checkpoints.iterdir() if entry.is_dir())


def steps_of(names: Iterable[str]) -> list[int]:
    """Return the steps that names of folders stand for, ascending; other names are left out."""
    return sorted(step for name in names if (step := step_of(name)) is not None)


def step_of(name: str) -> int | None:
    """Return the step that the name of a folder stands for, None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match is not None else None


def unfinished_step_of(name: str) -> int | None:
    """Return the step of a folder that is being written, None for any other name.

    Its temporary name is `.step_N.`, and then whatever its writer tells its own by.
    """
    hidden, _, rest = name.partition(".")
    step, dot, _ = rest.partition(".")
    return step_of(step) if dot and not hidden else None


def last_checkpoint_step(checkpoints: Path) -> int | None:
    """Return the newest step that a run can resume from, or None."""
    steps = checkpoint_steps(checkpoints)
    return steps[-1] if steps else None
