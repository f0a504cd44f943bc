"""Rows of a run's metrics files, and the steps that it has come to.

An attempt goes on from a checkpoint, so it may take steps again that one before it had taken past
that checkpoint. Those are not in the run's weights, and their rows are not in what is read here.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from runtime.control.readings import Progress
from runtime.control.requests import StepRange
from runtime.control.run_reads.run_rollouts import read_row, steps_with_traces
from runtime.control.run_source import Entry, RunSource, moment, read_whole

Row = Mapping[str, JsonValue]

_METRICS = re.compile(r"metrics(-\w+)?\.jsonl")
"""The orchestrator's file; in pods the trainer has its own beside it."""

_MAIN = "metrics.jsonl"
_MAX_FILES = 16
_MAX_BYTES = 64 << 20
"""Of all files together, so that no run can fill the server's memory."""

_LARGEST_TIME = 1e15
_TAIL_BYTES = 256 << 10


def read_metrics(source: RunSource, steps: StepRange) -> list[Row]:
    """Return the rows of a range of steps, as they were written, oldest first."""
    shares = _shares(_files(source), _MAX_BYTES)
    found = [row for entry, share in shares for row in _rows(source, entry.name, share)]
    found.sort(key=_time)  # stable: each file is in order already
    rows = [row for row in _standing(found) if _is_in(row, steps)]
    return rows[-steps.limit :] if steps.limit is not None else rows


def read_progress(source: RunSource) -> Progress:
    """Return how far a run is."""
    files = _files(source)
    rows = [row for entry in files for row in _rows(source, entry.name, _TAIL_BYTES)]
    latest = [step for row in _standing(rows) if isinstance(step := row.get("step"), int)]
    steps = steps_with_traces(source)
    return Progress(
        latest_step=max(latest, default=None),
        steps_with_samples=steps,
        steps_with_distributions=steps,
        updated_at=max(filter(None, (moment(entry.mtime) for entry in files)), default=None),
    )


def _files(source: RunSource) -> list[Entry]:
    """Return the metrics files by name, the orchestrator's first; a run has two of them at most."""
    found = [one for one in source.entries("") if _METRICS.fullmatch(one.name) and not one.is_dir]
    return sorted(found, key=lambda one: (one.name != _MAIN, one.name))[:_MAX_FILES]


def _shares(files: Sequence[Entry], max_bytes: int) -> list[tuple[Entry, int]]:
    """Return how much of each file is read; what small ones leave is the larger ones'."""
    by_size = sorted(files, key=lambda one: one.size)
    shares: dict[str, int] = {}
    for number, entry in enumerate(by_size):
        shares[entry.name] = max_bytes // (len(by_size) - number)
        max_bytes -= min(entry.size, shares[entry.name])
    return [(entry, shares[entry.name]) for entry in files]


def _rows(source: RunSource, path: str, max_bytes: int) -> Iterator[Row]:
    """Yield the whole rows at the end of a file; a torn or damaged one is left out."""
    data = read_whole(source, path, max_bytes=max_bytes) or b""
    for line in data[: data.rfind(b"\n") + 1].split(b"\n"):
        row = read_row(line)
        if row is not None:
            yield row


def _standing(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, in their order, without those of steps that a later attempt took again."""
    begun: dict[int, int] = {}
    for row in rows:
        attempt, step = row.get("attempt"), row.get("step")
        if isinstance(attempt, int) and isinstance(step, int):
            begun[attempt] = min(step, begun.get(attempt, step))
    ends: dict[int, float] = {}
    end = math.inf
    for attempt in sorted(begun, reverse=True):
        ends[attempt] = end
        end = min(end, begun[attempt])
    keys = [_unnumbered(row) for row in rows]
    last = {key: number for number, key in enumerate(keys)}
    return [
        row
        for number, (row, key) in enumerate(zip(rows, keys, strict=True))
        if _is_before(row, ends) and (key is None or last[key] == number)
    ]


def _unnumbered(row: Row) -> tuple[int, frozenset[str]] | None:
    """Return step and names of a row without an attempt, as prime-rl writes it: the last counts."""
    step = row.get("step")
    if "attempt" in row or not isinstance(step, int):
        return None
    return step, frozenset(row)


def _is_before(row: Row, ends: Mapping[int, float]) -> bool:
    attempt, step = row.get("attempt"), row.get("step")
    if not isinstance(attempt, int) or not isinstance(step, int):
        return True
    return step < ends[attempt]


def _is_in(row: Row, steps: StepRange) -> bool:
    step = row.get("step")
    if not isinstance(step, int):
        return steps.first is None and steps.last is None
    return (steps.first is None or step >= steps.first) and (
        steps.last is None or step <= steps.last
    )


def _time(row: Row) -> float:
    time = row.get("time")
    is_time = isinstance(time, int | float) and abs(time) < _LARGEST_TIME  # no NaN, no infinity
    return float(time) if is_time else 0.0  # type: ignore[arg-type]  # is_time says so
