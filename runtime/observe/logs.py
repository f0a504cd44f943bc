"""Reading the logs of a run from its run directory: tail, since, level, search, follow.

Works the same for a live and a finished run, since the wrapper wrote the files. What a line means
is `runtime.observe.log_filter`.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runtime.observe.log_filter import LineFilter, filter_lines, plain

_FOLLOW_S = 0.25
INDEX_S = 1.0
"""The wrapper indexes a line start a second: a block of lines is at most that long."""

_INDEX_ROW = re.compile(r"([0-9]+\.[0-9]+) ([0-9]+)")  # as the wrapper writes it
_MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LogQuery:
    """Which lines of a log are wanted; `since` is a Unix time in seconds, `tail` counts lines."""

    tail: int | None = None
    since: float | None = None
    wanted: LineFilter = field(default_factory=LineFilter)


def read_log(path: Path, query: LogQuery) -> list[str]:
    """Return the wanted lines of a log, oldest first; none where the log is not there yet."""
    return _read(path, query, end=_size(path))


def follow_log(path: Path, query: LogQuery, *, is_over: Callable[[], bool]) -> Iterator[str]:
    """Yield the wanted lines, then each new one as it comes, until the run is over."""
    start = _whole_size(path)
    yield from _read(path, query, end=start)
    yield from filter_lines(_new_lines(path, start, is_over), query.wanted)


def log_start(path: Path, since: float) -> int:
    """Return the offset of the first line that may be as young as `since`, by the index."""
    try:
        index = Path(f"{path}.idx").read_text(errors="replace")
    except OSError:
        return 0
    offset = index_offset(index, since)
    return _size(path) if offset is None else offset


def index_offset(index: str, since: float) -> int | None:
    """Return the offset that a wrapper's index gives for a time, None where all is older.

    A row that a full disk tore is left out: the one before or after it is a second away.
    """
    for row in index.splitlines():
        found = _INDEX_ROW.fullmatch(row)
        if found is not None and float(found[1]) + INDEX_S >= since:
            return int(found[2])
    return None


def _read(path: Path, query: LogQuery, *, end: int) -> list[str]:
    start = 0 if query.since is None else log_start(path, query.since)
    return list(deque(filter_lines(_lines(path, start, end), query.wanted), maxlen=query.tail))


def _lines(path: Path, start: int, end: int) -> Iterator[str]:
    if not end:
        return
    with path.open("rb") as file:
        file.seek(start)
        while file.tell() < end and (data := file.readline(_MAX_LINE_BYTES)):
            yield plain(data.decode(errors="replace").rstrip("\n"))


def _new_lines(path: Path, start: int, is_over: Callable[[], bool]) -> Iterator[str]:
    torn = b""
    while True:
        over = is_over()  # asked before the read, so that this round reads what came before the end
        if path.exists():
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            start += len(data)
            *whole, torn = (torn + data).split(b"\n")
            yield from (plain(line.decode(errors="replace")) for line in whole)
        if over:
            break
        time.sleep(_FOLLOW_S)
    if torn:
        yield plain(torn.decode(errors="replace"))


def _size(path: Path) -> int:
    return os.path.getsize(path) if path.exists() else 0


def _whole_size(path: Path) -> int:
    """Return the offset after the last line that has ended; a torn line is left to the follower."""
    size = _size(path)
    if not size:
        return 0
    with path.open("rb") as file:
        file.seek(max(0, size - _MAX_LINE_BYTES))
        tail = file.read(_MAX_LINE_BYTES)
    return size - len(tail) + tail.rfind(b"\n") + 1
