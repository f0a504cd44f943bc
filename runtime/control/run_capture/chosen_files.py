"""Which files of a run directory are captured, in which order; reads names only.

Logs come first, since nothing else tells why a run failed; checkpoints last, since they are large.
Weights on their way to inference and batches on their way to the trainer are of no use to anybody
after the run.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from runtime.checkpoints import step_of, steps_of
from runtime.control.run_source import Entry, FolderSource, RunSource

Checkpoints = Literal["none", "last", "all"]
"""Which checkpoints are captured; the others are listed with the place where they are."""

CHECKPOINTS_FOLDER = "checkpoints/"

_LOG = logging.getLogger(__name__)
_MAX_DEPTH = 24
_MAX_ENTRIES = 100_000
_FIRST = ("logs", "status", "configs", "metrics")
_LEFT_OUT = re.compile(r"rollouts/.*\.bin|.*\.tmp")
_TEXT = re.compile(r".*\.(?:log|jsonl|idx|out|err|txt)")
_SEARCHED = re.compile(r"logs/.*\.log")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenFile:
    """A file to capture, as the source lists it."""

    path: str
    mtime: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundCheckpoint:
    """A whole checkpoint: its step, the size of its files, and when the last was written."""

    step: int
    path: str
    size: int
    mtime: float


class TooManyFilesError(Exception):
    """A run directory has more files than are listed."""


def chosen_files(source: RunSource, *, checkpoints: Checkpoints) -> list[ChosenFile]:
    """Return the files to capture, in order.

    Raises TooManyFilesError, and SourceUnavailableError.
    """
    kept = set(_kept_steps(source, checkpoints))
    found = [
        ChosenFile(path=path, mtime=entry.mtime)
        for path, entry in _walk(source, "", kept, depth=0)
        if _LEFT_OUT.fullmatch(path) is None
    ]
    return sorted(found, key=lambda one: (_order(one.path), one.path))


def is_text(path: str) -> bool:
    """Tell whether a file is kept in frames of whole lines.

    None of a checkpoint is: those lie in the store as they were, for whoever fetches them from it.
    """
    return _TEXT.fullmatch(path) is not None and not path.startswith(CHECKPOINTS_FOLDER)


def is_log(path: str) -> bool:
    """Tell whether a file is searched."""
    return _SEARCHED.fullmatch(path) is not None


def found_checkpoints(source: RunSource) -> list[FoundCheckpoint]:
    """Return the whole checkpoints of a run directory, oldest first."""
    found = []
    for step in _steps(source):
        path = f"{CHECKPOINTS_FOLDER}step_{step}"
        # below depth 1, where other folders of checkpoints are left out
        entries = [entry for _, entry in _walk(source, path, set(), depth=2)]
        found.append(
            FoundCheckpoint(
                step=step,
                path=path,
                size=sum(entry.size for entry in entries),
                mtime=max((entry.mtime for entry in entries), default=0.0),
            )
        )
    return found


def total_size(source: RunSource) -> int:
    """Return the size of all files of a run directory, those that are not captured too."""
    return _size(source, "", depth=0)


def _kept_steps(source: RunSource, checkpoints: Checkpoints) -> list[int]:
    if checkpoints == "none":
        return []
    steps = _steps(source)
    return steps if checkpoints == "all" else steps[-1:]


def _steps(source: RunSource) -> list[int]:
    names = (entry.name for entry in source.entries(CHECKPOINTS_FOLDER.rstrip("/")) if entry.is_dir)
    return steps_of(names)


def _walk(
    source: RunSource, folder: str, kept: set[int], *, depth: int
) -> Iterator[tuple[str, Entry]]:
    """Yield (path, entry) of every file below a folder, without checkpoints that are not kept."""
    entries = source.entries(folder)
    # the file server of a cluster lists no more, and does not say so
    if len(entries) >= _MAX_ENTRIES and not isinstance(source, FolderSource):
        raise TooManyFilesError(f"{folder or 'the run directory'} has {len(entries)} entries")
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if not _is_unicode(entry.name):
            _LOG.warning("%r is left out: its name is not UTF-8", path)
            continue
        if not entry.is_dir:
            yield path, entry
        elif depth < _MAX_DEPTH and not _is_left(path, kept, depth):
            yield from _walk(source, path, kept, depth=depth + 1)


def _size(source: RunSource, folder: str, *, depth: int) -> int:
    total = 0
    for entry in source.entries(folder) if depth <= _MAX_DEPTH else ():
        path = f"{folder}/{entry.name}" if folder else entry.name
        total += _size(source, path, depth=depth + 1) if entry.is_dir else entry.size
    return total


def _is_left(path: str, kept: set[int], depth: int) -> bool:
    if path == "broadcasts" or path.rpartition("/")[2].startswith("."):
        return True
    is_checkpoint = depth == 1 and path.startswith(CHECKPOINTS_FOLDER)
    return is_checkpoint and step_of(path.removeprefix(CHECKPOINTS_FOLDER)) not in kept


def _is_unicode(name: str) -> bool:
    return name == name.encode("utf-8", "replace").decode() and "\ufffd" not in name


def _order(path: str) -> int:
    head = path.split("/", 1)[0].split(".", 1)[0].split("-", 1)[0]
    if head in _FIRST:
        return _FIRST.index(head)
    return len(_FIRST) + (path.startswith(CHECKPOINTS_FOLDER))
