"""Prune: which run directories may be deleted, and their deletion, one at a time.

Only of a run that is over and torn down, whose captured record is complete, and with whose
checkpoint no run waits to start. `chosen` is pure; `remove_run` takes the directory out of the way
before it looks at the run a last time, so that a run that is resumed meanwhile gets it back.

Nothing else deletes run directories but the deletion of a user's volume with all that is on it,
which waits for captures too (`runtime.control.volume_stacks`).
"""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from runtime.control.manifest import Manifest
from runtime.control.values import StoredRun
from runtime.errors import RunStateError
from runtime.resume_from import parse_resume_from
from runtime.states import Teardown

_ASIDE = ".pruned"


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneLimits:
    """What is too old, and how much all run directories may take; None = no limit."""

    older_than: timedelta | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A run whose directory is there: its size, and why it must stay, empty where it may go."""

    run: StoredRun
    size: int
    keeps: str = ""


class RunFolders(Protocol):
    """The run directories of one place: a folder of this machine, or a volume of a cluster."""

    def set_aside(self, run_id: str) -> bool:
        """Take a directory out of the way in one step; False where there is none."""
        ...

    def put_back(self, run_id: str) -> None:
        """Undo `set_aside`."""
        ...

    def delete(self, run_id: str) -> None:
        """Delete what was set aside."""
        ...


def runs_starting_from(run_id: str, live: Iterable[StoredRun]) -> list[str]:
    """Return the runs that are not over and start with a run's checkpoint."""
    return [one.run_id for one in live if not one.is_over and _starts_from(one) == run_id]


def reason_to_keep(run: StoredRun, manifest: Manifest | None, live: Iterable[StoredRun]) -> str:
    """Return why a run's directory must stay, empty where it may go; `live` are all live runs."""
    starting = runs_starting_from(run.run_id, live)
    if starting:
        return f"{starting[0]} starts with its checkpoint"
    if not run.is_over:
        return f"it is {run.state}"
    if run.teardown is not Teardown.DONE:
        return f"its teardown is {run.teardown}"
    if manifest is None or not manifest.is_complete:
        return "it is not captured"
    if manifest.attempt != run.attempt:
        return f"attempt {run.attempt} is not captured"
    return ""


def chosen(
    candidates: Iterable[Candidate], limits: PruneLimits, *, now: datetime
) -> list[Candidate]:
    """Return the runs whose directories go: those that are too old, then the oldest over the size.

    What must stay counts into the size, since it takes the space.
    """
    found = sorted(candidates, key=lambda one: _ended(one.run))
    oldest = None if limits.older_than is None else now - limits.older_than
    total = sum(one.size for one in found)
    gone = []
    for one in found:
        is_old = oldest is not None and _ended(one.run) < oldest
        is_over_size = limits.max_bytes is not None and total > limits.max_bytes
        if one.keeps or not (is_old or is_over_size):
            continue
        gone.append(one)
        total -= one.size
    return gone


def remove_run(
    run: StoredRun,
    folders: RunFolders,
    *,
    read_again: Callable[[str], StoredRun | None],
    read_live: Callable[[], Iterable[StoredRun]],
) -> None:
    """Delete the directory of a run that was chosen.

    Raises RunStateError, with the directory where it was, for a run that somebody has changed since
    it was judged, or with whose checkpoint somebody starts a run.
    """
    if not folders.set_aside(run.run_id):
        return
    again = read_again(run.run_id)
    starting = runs_starting_from(run.run_id, read_live())
    if again is None or again.version != run.version or starting:
        folders.put_back(run.run_id)
        what = f"{starting[0]} starts with its checkpoint" if starting else "it was changed"
        raise RunStateError(f"{run.run_id} is kept: meanwhile {what}")
    folders.delete(run.run_id)


class LocalFolders:
    """Run directories on this machine."""

    def __init__(self, runs: Path) -> None:
        """Delete in this folder, the parent of run directories."""
        self._runs = runs

    def set_aside(self, run_id: str) -> bool:
        """Take a directory out of the way in one step; False where there is none."""
        if not (self._runs / run_id).exists():
            return self._aside(run_id).exists()  # an earlier prune was killed before its deletion
        shutil.rmtree(self._aside(run_id), ignore_errors=True)
        (self._runs / run_id).rename(self._aside(run_id))
        return True

    def put_back(self, run_id: str) -> None:
        """Undo `set_aside`."""
        with suppress(OSError):  # a new one is there: what it lacks stays aside
            self._aside(run_id).rename(self._runs / run_id)

    def delete(self, run_id: str) -> None:
        """Delete what was set aside; links are removed, never followed."""
        shutil.rmtree(self._aside(run_id))

    def size(self, run_id: str) -> int:
        """Return what a directory takes, 0 where there is none."""
        total = 0
        for path in (self._runs / run_id, self._aside(run_id)):
            for folder, _, names in os.walk(path):
                for name in names:
                    with suppress(OSError):
                        total += (Path(folder) / name).lstat().st_size
        return total

    def _aside(self, run_id: str) -> Path:
        return self._runs / f"{_ASIDE}.{run_id}"


def _starts_from(run: StoredRun) -> str | None:
    text = run.settings.get("resumeFrom")
    return parse_resume_from(str(text)).run_id if text else None


def _ended(run: StoredRun) -> datetime:
    return run.ended_at or run.updated_at
