"""The log lines of a run's components: which files, from where on, and in which order.

A log goes on from attempt to attempt. Lines of several components of one role are put in the order
of their times, which the wrapper's index beside each log knows to a second. Who follows a log looks
for what comes after the lines of the last look, so a line is shown once none can come before it.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.control.captured_source import CapturedSource
from runtime.control.log_search.needles import chosen_find, needles_of
from runtime.control.log_search.patterns import Wanted, compile_wanted
from runtime.control.log_search.scan import Block, file_blocks, last_lines, sought_blocks
from runtime.control.log_search.text import MAX_LINE_BYTES
from runtime.control.planned import RunComponent
from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from runtime.control.run_reads.run_components import run_components
from runtime.control.run_source import Finds, RunSource, read_whole
from runtime.control.run_sources import RunFolder
from runtime.control.values import StoredRun
from runtime.errors import NotFoundError
from runtime.observe.log_filter import LineFilter
from runtime.observe.logs import INDEX_S

CLOCK_SLACK_S = 120.0
"""How far a node's clock may be off: lines are shown that much too old, so that none is hidden."""

SETTLE_S = 6.0
"""How late a line of another node is seen: a node's clock, and what NFS clients keep (acregmin)."""

LOCAL_SETTLE_S = 2.0
"""The same on this machine: an index's second, and a busy machine's."""

_ENV_SERVER = "env-server"
"""The client's word for `naming.ENV_SERVER`."""

_LOGS = str(RunDirectory(Path()).path / "logs")
_ATTEMPT = re.compile(r"attempt_(\d+)")
_MAX_INDEX_BYTES = 256 << 20
_USUAL_LINES = 64 << 10


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
    settled = now - (LOCAL_SETTLE_S if folder.is_local else SETTLE_S)
    lines: list[str] = []
    for attempt in reversed(_attempts(folder.source)):
        reader.settled = settled if folder.is_live and attempt == run.attempt else None
        found = reader.lines(f"{_LOGS}/attempt_{attempt}", chosen)
        lines = (found + lines)[-query.num_lines :]
        if len(lines) >= query.num_lines:
            break
    return LogPage(text="".join(f"{line}\n" for line in lines), has_started=reader.has_started)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Log:
    """One log file as it was found; `times` and `offsets` are its index, where one is needed."""

    path: str
    size: int
    times: Sequence[float] = ()
    offsets: Sequence[int] = ()


class _Reader:
    """Reads log files of one run for one query.

    `settled` is, where files still grow, the time whose lines are all there.
    """

    def __init__(
        self, source: RunSource, wanted: Wanted, *, since: float | None, num_lines: int
    ) -> None:
        self.has_started = False
        self.settled: float | None = None
        self._source = source
        self._wanted = wanted
        self._needles = needles_of(wanted)
        self._since = since
        self._num_lines = num_lines

    def lines(self, folder: str, components: Sequence[RunComponent]) -> list[str]:
        """Return the wanted lines of one attempt's files, oldest first."""
        is_merged = len(components) > 1
        logs = [self._log(f"{folder}/{one.log}", is_timed=is_merged) for one in components]
        if not is_merged:
            return [line.text for line in self._found(logs[0], until=None)]
        until = None if self.settled is None else _complete_until(logs, self.settled)
        merged: list[_TimedLine] = []
        for one, log in zip(components, logs, strict=True):
            merged += [
                _TimedLine(time=line.time, text=f"[{one.name}] {line.text}")
                for line in self._found(log, until=until)
            ]
        merged.sort(key=lambda line: line.time)  # stable: lines of one second stay as they are
        return [line.text for line in merged[-self._num_lines :]]

    def _log(self, path: str, *, is_timed: bool) -> _Log:
        size = self._source.size(path) or 0
        self.has_started = self.has_started or size > 0
        if not size or not (is_timed or self._since is not None):
            return _Log(path=path, size=size)
        times, offsets = _index_rows(self._index(path))
        return _Log(path=path, size=size, times=times, offsets=offsets)

    def _found(self, log: _Log, *, until: float | None) -> list[_TimedLine]:
        start, end = 0, log.size
        if self._since is not None and log.times:
            start = min(_offset_at(log, self._since - INDEX_S), end)
        if until is not None:
            end = min(_offset_after(log, until), end)
        found = last_lines(self._blocks(log.path, start, end), self._wanted, self._num_lines)
        return [
            _TimedLine(time=_time_at(log.times, log.offsets, line.offset), text=line.text)
            for line in found
        ]

    def _blocks(self, path: str, start: int, size: int) -> Iterator[Block]:
        source = self._source
        if isinstance(source, CapturedSource):
            return source.blocks(path, start, self._wanted)
        end = size if self.settled is None else _last_break(source, path, size)

        def read(offset: int, length: int) -> bytes:
            return source.read(path, offset, length)

        if not self._needles or not isinstance(source, Finds):
            return file_blocks(read, start, end)
        choose = partial(chosen_find, partial(source.find, path), self._needles)
        return sought_blocks(read, choose, start, end)

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
    end, length = size, _USUAL_LINES
    while end > 0:
        start = max(0, end - length)
        place = source.read(path, start, end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        if size - start >= MAX_LINE_BYTES:
            return size  # a bar that is drawn for ever: better torn than never seen
        end, length = start, MAX_LINE_BYTES
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


def _complete_until(logs: Sequence[_Log], settled: float) -> float:
    """Return the time up to which no log gets another line, from what each has by now.

    A log goes on from its last row on, or, where it has been silent, from the time that is settled
    on. A clock that is ahead of this machine's holds nothing back: better told twice than late.
    """
    last = [log.times[-1] if log.times else 0.0 for log in logs]
    is_ahead = max(last) > settled + 2 * SETTLE_S
    return math.inf if is_ahead else min(max(one, settled) for one in last)


def _offset_at(log: _Log, time: float) -> int:
    """Return where the first line begins that an index gives this time or a later one."""
    place = bisect_left(log.times, time)
    return log.offsets[place] if place < len(log.offsets) else log.size


def _offset_after(log: _Log, time: float) -> int:
    """Return where the lines of this time end."""
    place = bisect_right(log.times, time)
    return log.offsets[place] if place < len(log.offsets) else log.size


def _time_at(times: Sequence[float], offsets: Sequence[int], offset: int) -> float:
    place = bisect_right(offsets, offset) - 1
    return times[place] if 0 <= place < len(times) else 0.0
