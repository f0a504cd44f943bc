"""The log lines of a run's components: which files, from where on, and in which order.

A log goes on from attempt to attempt. Lines of several components of one role are put in the order
of their times, which the wrapper's index beside each log knows to a second.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.control.captured_source import CapturedSource
from runtime.control.log_search.patterns import Wanted, compile_wanted
from runtime.control.log_search.scan import Block, file_blocks, last_lines
from runtime.control.log_search.text import MAX_LINE_BYTES
from runtime.control.planned import RunComponent
from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from runtime.control.run_reads.run_components import run_components
from runtime.control.run_source import RunSource, read_whole
from runtime.control.run_sources import RunFolder
from runtime.control.values import StoredRun
from runtime.errors import NotFoundError
from runtime.observe.log_filter import LineFilter
from runtime.observe.logs import index_offset

CLOCK_SLACK_S = 120.0
"""How far a node's clock may be off: lines are shown that much too old, so that none is hidden."""

_ENV_SERVER = "env-server"
"""The client's word for `naming.ENV_SERVER`."""

_LOGS = str(RunDirectory(Path()).path / "logs")
_ATTEMPT = re.compile(r"attempt_(\d+)")
_MAX_INDEX_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _TimedLine:
    time: float
    text: str


def read_logs(run: StoredRun, query: LogQuery, folder: RunFolder | None, *, now: float) -> LogPage:
    """Return the last lines that a query matches.

    Raises NotFoundError for a component that the run has not, SettingsError for a pattern that is
    none.
    """
    source = folder.source if folder is not None else None
    chosen = _chosen(run_components(run, source), query)
    search = LineFilter(level=query.level, search=query.search, is_regex=query.is_regex)
    wanted = compile_wanted(search)
    if folder is None:
        return LogPage(text="", has_started=False)
    since = None
    if query.since_s is not None:
        since = now - query.since_s - (0.0 if folder.is_local else CLOCK_SLACK_S)
    reader = _Reader(folder.source, wanted, since=since, num_lines=query.num_lines)
    lines: list[str] = []
    for attempt in reversed(_attempts(folder.source)):
        reader.is_live = folder.is_live and attempt == run.attempt
        found = reader.lines(f"{_LOGS}/attempt_{attempt}", chosen)
        lines = (found + lines)[-query.num_lines :]
        if len(lines) >= query.num_lines:
            break
    return LogPage(text="".join(f"{line}\n" for line in lines), has_started=reader.has_started)


class _Reader:
    """Reads log files of one run for one query."""

    def __init__(
        self, source: RunSource, wanted: Wanted, *, since: float | None, num_lines: int
    ) -> None:
        self.has_started = False
        self.is_live = False
        self._source = source
        self._wanted = wanted
        self._since = since
        self._num_lines = num_lines

    def lines(self, folder: str, components: Sequence[RunComponent]) -> list[str]:
        """Return the wanted lines of one attempt's files, oldest first."""
        if len(components) == 1:
            found = self._found(f"{folder}/{components[0].log}", is_timed=False)
            return [line.text for line in found]
        merged: list[_TimedLine] = []
        for one in components:
            merged += [
                _TimedLine(time=line.time, text=f"[{one.name}] {line.text}")
                for line in self._found(f"{folder}/{one.log}", is_timed=True)
            ]
        merged.sort(key=lambda line: line.time)  # stable: lines of one second stay as they are
        return [line.text for line in merged[-self._num_lines :]]

    def _found(self, path: str, *, is_timed: bool) -> list[_TimedLine]:
        size = self._source.size(path)
        if not size:
            return []
        self.has_started = True
        needs_index = is_timed or self._since is not None
        index = self._index(path) if needs_index else ""
        start = 0
        if self._since is not None and index:
            offset = index_offset(index, self._since)
            start = size if offset is None else min(offset, size)
        found = last_lines(self._blocks(path, start, size), self._wanted, self._num_lines)
        if not is_timed:
            return [_TimedLine(time=0.0, text=line.text) for line in found]
        times, offsets = _index_rows(index)
        return [
            _TimedLine(time=_time_at(times, offsets, line.offset), text=line.text) for line in found
        ]

    def _blocks(self, path: str, start: int, size: int) -> Iterator[Block]:
        source = self._source
        if isinstance(source, CapturedSource):
            return source.blocks(path, start, self._wanted)
        end = _last_break(source, path, size) if self.is_live else size

        def read(offset: int, length: int) -> bytes:
            return source.read(path, offset, length)

        return file_blocks(read, start, end)

    def _index(self, path: str) -> str:
        data = read_whole(self._source, f"{path}.idx", max_bytes=_MAX_INDEX_BYTES) or b""
        whole = data[: data.rfind(b"\n") + 1]
        return whole.decode("ascii", "replace")


def _chosen(components: Sequence[RunComponent], query: LogQuery) -> list[RunComponent]:
    """Return the components that a query means."""
    role = naming.ENV_SERVER if query.component == _ENV_SERVER else query.component
    named = f"env server {query.env_name}" if role == naming.ENV_SERVER else role
    found = [
        one
        for one in components
        if one.role == role and (role != naming.ENV_SERVER or one.source == query.env_name)
    ]
    if not found:
        names = dict.fromkeys(one.source or one.role for one in components)
        raise NotFoundError(f"the run has no {named}; it has {', '.join(names) or 'nothing yet'}")
    if query.index is None:
        return found
    if query.index >= len(found):
        raise NotFoundError(f"the run has no {named}/{query.index}; it has {len(found)} of it")
    return [found[query.index]]


def _attempts(source: RunSource) -> list[int]:
    names = (entry.name for entry in source.entries(_LOGS))
    return sorted(int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name)))


def _last_break(source: RunSource, path: str, size: int) -> int:
    """Return the end of the last whole line: a torn one would be another at the next look."""
    end = size
    while end > 0:
        start = max(0, end - MAX_LINE_BYTES)
        place = source.read(path, start, end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        if size - start >= MAX_LINE_BYTES:
            return size  # a bar that is drawn for ever: better torn than never seen
        end = start
    return 0


def _index_rows(index: str) -> tuple[list[float], list[int]]:
    """Return the times and offsets of an index; times never go back, whatever a clock did."""
    times: list[float] = []
    offsets: list[int] = []
    for row in (line.split() for line in index.splitlines()):
        try:
            time, offset = float(row[0]), int(row[1])
        except (ValueError, IndexError):
            continue
        times.append(max(time, times[-1]) if times else time)
        offsets.append(offset)
    return times, offsets


def _time_at(times: Sequence[float], offsets: Sequence[int], offset: int) -> float:
    place = bisect_right(offsets, offset) - 1
    return times[place] if 0 <= place < len(times) else 0.0
