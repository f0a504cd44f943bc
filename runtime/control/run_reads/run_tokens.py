"""Tokens of a run's rollouts: what went into the engines and what came out, as verifiers counts.

Exact integers of the rollouts that the run's directory or its capture holds, so the same before and
after a teardown. A file of rollouts is written once, so what was counted is remembered.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from runtime.control.readings import TokenCount
from runtime.control.run_reads.run_rollouts import (
    MAX_FILE_BYTES,
    Row,
    read_rows_of,
    rollout_steps,
    traces_path,
)
from runtime.control.run_source import RunSource
from runtime.control.values import StoredRun

MAX_BYTES = 128 << 20
"""Of rollouts that one look reads, one file at least; the next look goes on where it ended."""

_SPLITS = ("train", "eval")
_NUM_RUNS = 256
_NUM_GROWING = 4
"""Of a live run the newest steps, whose files may not all be there yet."""

_MAX_TOKENS = 10**15

Counts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _File:
    size: int
    counts: Counts | None


@dataclass(slots=True)
class _Counted:
    """What is known of one attempt: its files by path, and the steps that need no further look."""

    files: dict[str, _File] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    is_of_live: bool = True

    def settle(self, *, is_live: bool) -> None:
        """Look at every step once more when the run has come to rest."""
        if self.is_of_live and not is_live:
            self.settled.clear()
        self.is_of_live = is_live


class RolloutTokens:
    """Counts the tokens of runs, and remembers those of the runs that were asked for last."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._runs: OrderedDict[tuple[str, int], _Counted] = OrderedDict()
        self._lock = threading.Lock()

    def count(self, run: StoredRun, source: RunSource, *, is_live: bool) -> TokenCount:
        """Return the tokens of a run's rollouts.

        Without numbers where no rollout has any, or while not all have been counted.
        """
        known = self._known(run)
        known.settle(is_live=is_live)
        num_bytes = 0
        steps = rollout_steps(source)
        growing = steps[-_NUM_GROWING:] if is_live else ()
        for step in steps:
            if step in known.settled:
                continue
            for path in _new_files(known, source, step):
                if num_bytes > MAX_BYTES:
                    return TokenCount()
                size = source.size(path) or 0  # before the rows: it may grow meanwhile
                if size > MAX_FILE_BYTES:  # some of them would not be counted
                    return TokenCount()
                num_bytes += size
                known.files[path] = _File(size, _sum(read_rows_of(source, path)))
            if step not in growing:
                known.settled.add(step)
        counted = [one.counts for one in list(known.files.values()) if one.counts is not None]
        if not counted:
            return TokenCount()
        return TokenCount(
            input_tokens=sum(given for given, _ in counted),
            output_tokens=sum(made for _, made in counted),
        )

    def _known(self, run: StoredRun) -> _Counted:
        """Return what is known of a run's attempt; a later one may have written steps anew."""
        key = (run.run_id, run.attempt)
        with self._lock:
            known = self._runs.setdefault(key, _Counted())
            self._runs.move_to_end(key)
            while len(self._runs) > _NUM_RUNS:
                self._runs.popitem(last=False)
        return known


def _new_files(known: _Counted, source: RunSource, step: int) -> Iterator[str]:
    """Yield the files of a step's rollouts that were not counted as they are now."""
    for split in _SPLITS:
        path = traces_path(source, step, split)
        if path is None:
            continue
        found = known.files.get(path)
        if found is None or found.size != source.size(path):
            yield path


def _sum(rows: Iterator[Row]) -> Counts | None:
    """Return the tokens of rollouts, None where none of them says how many."""
    counts = [found for row in rows if (found := _tokens(row)) is not None]
    if not counts:
        return None
    return sum(given for given, _ in counts), sum(made for _, made in counts)


def _tokens(row: Row) -> Counts | None:
    given, made = row.get("num_input_tokens"), row.get("num_output_tokens")
    if not (_is_count(given) or _is_count(made)):
        return None
    return _number(given), _number(made)


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) and _is_count(value) else 0


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS
