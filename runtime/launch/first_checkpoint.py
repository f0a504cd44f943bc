"""The checkpoint of another run, put into the directory of a run that starts with it.

A program of its own in one file, Python 3.10 and the standard library only: in a pod the
orchestrator's `pod_entry.py prepare` starts it, before anything looks for checkpoints. The local
target calls `bring`. A run that has a checkpoint already keeps its own, so every later attempt goes
on from there, whether the other run is still kept or not.

Exit code 2: there is nothing to start with, said in one message.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent
EXIT_MISSING = 2

Json = dict[str, Any]  # Any: JSON


class MissingError(Exception):
    """The run has nothing to start with; the message says what is there instead."""


def bring(first: Json, source: Path, target: Path) -> "int | None":
    """Put a checkpoint of a run directory into another one; None where that has one already.

    `first` has `run` and `step` (None = the last), the `parts` of a whole checkpoint, and the
    `max_steps` of the run that starts with it. Raises MissingError.
    """
    parts = tuple(first["parts"])
    checkpoints = target / "checkpoints"
    if whole_steps(checkpoints, parts):
        return None
    steps = whole_steps(source / "checkpoints", parts)
    step = choose(steps, first)
    name = f"step_{step}"
    temporary = checkpoints / f".{name}.from"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        # a link is copied as a link: it must not bring in what it points at
        shutil.copytree(
            source / "checkpoints" / name, temporary, symlinks=True, copy_function=link_or_copy
        )
    except OSError as error:  # removed in between by a run that is live, or no room
        shutil.rmtree(temporary, ignore_errors=True)
        why = error.args[0][-1][-1] if isinstance(error, shutil.Error) else error
        message = f"checkpoint {name} of {first['run']} cannot be copied: {why}"
        raise MissingError(message) from None
    torn = checkpoints / name
    shutil.rmtree(torn, ignore_errors=True)  # without all its parts, or it would have been kept
    temporary.replace(torn)
    return step


def choose(steps: "list[int]", first: Json) -> int:
    """Return the step to start with. Raises MissingError."""
    run, wanted, limit = first["run"], first["step"], first["max_steps"]
    if not steps:
        raise MissingError(
            f"{run} has no checkpoint on this run's volume: its config needs a trainer.ckpt table, "
            "and both runs one volume"
        )
    if wanted is not None and wanted not in steps:
        have = ", ".join(map(str, steps[-20:]))
        raise MissingError(f"{run} has no checkpoint of step {wanted}; it has those of {have}")
    step = steps[-1] if wanted is None else wanted
    if limit is not None and step >= limit:
        raise MissingError(
            f"the checkpoint of {run} is of step {step} and max_steps is {limit}, so that no step "
            "is left: raise max_steps, or name an earlier checkpoint (RUN:STEP)"
        )
    return step


def whole_steps(checkpoints: Path, parts: "tuple[str, ...]") -> "list[int]":
    """Return the steps of which every part is there, ascending."""
    found = []
    for folder in checkpoints.iterdir() if checkpoints.is_dir() else ():
        head, _, number = folder.name.partition("_")
        if head == "step" and number.isdigit() and all((folder / part).is_dir() for part in parts):
            found.append(int(number))
    return sorted(found)


def link_or_copy(source: str, target: str) -> str:
    """Share a file with the other run, whose checkpoints nobody writes to again, or copy it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or another mount of the same one, as in a pod
        shutil.copyfile(source, target, follow_symlinks=False)
    return target


def main() -> int:
    """Do what launch.json says."""
    launch = json.loads((HERE / "launch.json").read_text())
    first = launch["first_checkpoint"]
    source = Path(first["from"])
    try:
        step = bring(first, source, Path(launch["run_dir"]))
    except MissingError as error:
        print(f"nothing to start with: {error}", file=sys.stderr)
        return EXIT_MISSING
    if step is not None:
        print(f"prepare: starting with step {step} of {first['run']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
