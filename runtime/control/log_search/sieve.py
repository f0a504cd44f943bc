"""The places of a block where a match may lie, found several times as fast as RE2 looks at them.

Of the clauses that a match must hold, one is looked for with numpy, a block's rarest: byte by byte
the sets of a few places of its windows. Where it is found too often, RE2 looks at all.
"""

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from runtime.control.log_search.requirements import (
    BREAK,
    MAX_WINDOW,
    ByteSet,
    Clause,
    Window,
    members,
    weight,
)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]  # Any: of one dimension

_CHUNK = 128 << 10
"""What is looked at in one go, with its masks: no more than a core's own cache holds."""
_SAMPLE = 64 << 10
_FEW_PLACES = 32
"""More of them in a chunk, and RE2 is faster than a call of it for each."""
_RARE = 1 / 16
"""Of these: so few that another run would cost more than they do."""
_MAX_STEPS = 10
"""With more operations of numpy's a byte RE2 is faster: numpy wants Python's lock after each."""
_MAX_RUNS = 4
_MAX_TRIED = 16
"""Windows that are tried on a sample."""
_CHOSEN_FOR = 16 << 20
"""Bytes of the log after which what is rare may be something else."""
_LEAST_BLOCK = 8 << 10

_UPPER = ((1 << 26) - 1) << ord("A")

_NONE = np.zeros(0, dtype=np.intp)

_Run = tuple[int, ByteSet, int]
"""Where in a window a run of one set begins, the set, how often it is repeated."""
_Rows = list[tuple[Window, list[_Run]]]
_Test = tuple[bool, int, int]
"""Whether a letter's case is ignored, then the lowest and the highest byte that passes."""
_Key = tuple[ByteSet, int] | str


class Sieve:
    """What one search looks for in its blocks; chosen by a sample, and again every few blocks."""

    def __init__(self, clauses: Sequence[Clause]) -> None:
        """Look for one of these clauses, all of which a match holds."""
        self._clauses = _telling(clauses)
        self._rows: _Rows | None = None
        self._num_bytes_left = 0
        self._of_thread = threading.local()

    def places(self, block: bytes) -> "Places":
        """Return where a match may lie in a block."""
        data, masks = np.frombuffer(block, dtype=np.uint8), self._masks()
        if not self._clauses or len(block) < _LEAST_BLOCK:
            return Places(block, data, masks, None)
        if self._num_bytes_left <= 0:  # two threads may choose at once, and both choose well
            self._rows = _rarest(data, masks, self._clauses)
            self._num_bytes_left = _CHOSEN_FOR
        self._num_bytes_left -= len(block)
        return Places(block, data, masks, self._rows)

    def _masks(self) -> "_Masks":
        """Return the arrays of this thread; what is in them is needed until they are used again."""
        masks = getattr(self._of_thread, "masks", None)
        if masks is None:
            masks = self._of_thread.masks = _Masks(_CHUNK + MAX_WINDOW)
        return masks


class Places:
    """The places of one block where a match may lie."""

    def __init__(self, block: bytes, data: Bytes, masks: "_Masks", rows: "_Rows | None") -> None:
        """Look for these windows, for nothing where there are none."""
        self._block = block
        self._bytes = data
        self._masks = masks
        self._rows = rows
        self._places: list[int] = []
        self._seen_to = 0
        self._crowded_to = -1

    def stretch(self, start: int) -> tuple[int, int] | None:
        """Return the next stretch of whole lines, from a line's start on, that may hold a match."""
        size = len(self._block)
        if start >= size:
            return None
        if self._rows is None:
            return start, size
        if start <= self._crowded_to:
            return start, self._crowded_to
        while True:
            while self._places:
                place = self._places.pop()
                if place >= start:
                    return self._line(place)
            begin = max(self._seen_to, start - 1)
            if begin >= size:
                return None
            if not self._look(begin, self._rows):
                self._seen_to = self._crowded_to
                return max(start, self._line(begin)[0]), self._crowded_to

    def _look(self, begin: int, rows: _Rows) -> bool:
        """Find the places of the next chunk; False for one with too many."""
        end = min(begin + _CHUNK, len(self._block))
        found = self._masks.found(self._bytes, begin, end, rows)
        places = np.flatnonzero(found.view(bool)) + begin if found.view(bool).any() else _NONE
        if len(places) > _FEW_PLACES:
            self._crowded_to = self._line(end - 1)[1]
            return False
        self._places = places[::-1].tolist()
        if begin == 0 and any(window[0] == BREAK for window, _ in rows):
            self._places.append(0)
        if end == len(self._block) and any(window[-1] == BREAK for window, _ in rows):
            self._places.insert(0, end - 1)
        self._seen_to = end
        return True

    def _line(self, place: int) -> tuple[int, int]:
        end = self._block.find(b"\n", place)
        return self._block.rfind(b"\n", 0, place) + 1, len(self._block) if end < 0 else end


def _telling(clauses: Sequence[Clause]) -> list[Clause]:
    """Return the clauses that say most, no more than can be tried."""
    kept: list[Clause] = []
    num_left = _MAX_TRIED
    for clause in sorted(clauses, key=lambda clause: -min(map(weight, clause))):
        if len(clause) <= num_left:
            kept.append(clause)
            num_left -= len(clause)
    return kept


def _rarest(data: Bytes, masks: "_Masks", clauses: Sequence[Clause]) -> _Rows | None:
    """Return the cheapest clause that a sample holds seldom enough, None where none is."""
    middle = max(0, len(data) - _SAMPLE) // 2
    sample = data[middle : middle + _SAMPLE]
    shares = np.bincount(sample, minlength=256) / len(sample)
    most = _FEW_PLACES * len(sample) // _CHUNK
    found: _Rows | None = None
    steps = _MAX_STEPS + 1
    for clause in clauses:
        rows: _Rows = []
        for window in clause:
            runs = _seldom(sample, masks, (window, _by_share(window, shares)), most)
            if runs is None:
                break
            rows.append((window, runs))
        else:
            cost = _num_steps(rows)
            if cost < steps and _count(sample, masks, rows) <= most:
                found, steps = rows, cost
    return found


def _seldom(
    sample: Bytes, masks: "_Masks", row: tuple[Window, list[_Run]], most: int
) -> list[_Run] | None:
    """Return the first few runs that are seldom found together, not by the chance of one."""
    window, runs = row
    kept = None
    for number in range(min(len(runs), 2), min(len(runs), _MAX_RUNS) + 1):
        count = _count(sample, masks, [(window, runs[:number])])
        if count <= most:
            kept = runs[:number]
        if count <= most * _RARE:
            break
    return kept


def _count(sample: Bytes, masks: "_Masks", rows: _Rows) -> int:
    return int(np.count_nonzero(masks.found(sample, 0, len(sample), rows).view(bool)))


def _by_share(window: Window, shares: "np.ndarray[Any, Any]") -> list[_Run]:  # Any: of floats
    """Return the runs of a window, that of the rarest bytes first."""
    runs: list[_Run] = []
    for place, one in enumerate(window):
        if runs and runs[-1][1] == one:
            runs[-1] = (runs[-1][0], one, runs[-1][2] + 1)
        else:
            runs.append((place, one, 1))
    share = {one: float(sum(shares[byte] for byte in members(one))) for one in set(window)}
    return sorted(runs, key=lambda run: share[run[1]] ** run[2])


def _num_steps(rows: _Rows) -> int:
    tests = [test for one in {run[1] for _, runs in rows for run in runs} for test in _tests(one)]
    masks = sum(2 if lowest == highest else 3 for _, lowest, highest in tests)
    return masks + sum(run[2].bit_length() for _, runs in rows for run in runs)


class _Masks:
    """Marks the bytes of a chunk that belong to a set or begin a window; its arrays are kept.

    Fresh arrays of this size would cost more, page by page, than what is done to them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrays: dict[_Key, Bytes] = {}
        self._known: set[_Key] = set()
        self._data = np.empty(0, dtype=np.uint8)

    def found(self, data: Bytes, begin: int, end: int, rows: _Rows) -> Bytes:
        """Return for each place of a chunk, and the one behind it, whether a window begins there.

        The place of a window that begins with a line's begin is the line's.
        """
        longest = max(len(window) for window, _ in rows)
        self._data = data[begin : end + longest - 1]
        self._known.clear()
        found = self._array("found", end - begin + 1)
        found[:] = 0
        for window, runs in rows:
            size = min(end - begin, len(self._data) - len(window) + 1)
            if size > 0:
                first = 1 if window[0] == BREAK else 0
                into = found[first : first + size]
                np.bitwise_or(into, self._window(runs, size), out=into)
        return found

    def _window(self, runs: list[_Run], size: int) -> Bytes:
        (place, one, number), *others = runs
        found = self._run(one, number)[place : place + size]
        if not others:
            return found
        both = self._array("both", size)
        for place, one, number in others:
            found = np.bitwise_and(found, self._run(one, number)[place : place + size], out=both)
        return found

    def _run(self, one: ByteSet, number: int) -> Bytes:
        key, size = (one, number), len(self._data) - number + 1
        found = self._array(key, size)
        if key not in self._known:
            self._known.add(key)
            if number == 1:
                self._mark(one, found)
            else:
                half, behind = self._run(one, (number + 1) // 2), number // 2
                np.bitwise_and(half[:size], half[behind:][:size], out=found)
        return found

    def _mark(self, one: ByteSet, found: Bytes) -> None:
        tests = _tests(one)
        if not tests:
            found[:] = 0
        for number, (folds, lowest, highest) in enumerate(tests):
            data = self._folded() if folds else self._data
            into = found if number == 0 else self._array("other", len(found))
            if lowest < highest:
                data = np.subtract(data, np.uint8(lowest), out=into)
                np.less_equal(data, np.uint8(highest - lowest), out=into.view(bool))
            else:
                np.equal(data, np.uint8(lowest), out=into.view(bool))
            if number > 0:
                np.bitwise_or(found, into, out=found)

    def _folded(self) -> Bytes:
        found = self._array("folded", len(self._data))
        if "folded" not in self._known:
            self._known.add("folded")
            np.bitwise_or(self._data, np.uint8(0x20), out=found)
        return found

    def _array(self, key: _Key, size: int) -> Bytes:
        array = self._arrays.get(key)
        if array is None:
            array = self._arrays[key] = np.empty(self._size, dtype=np.uint8)
        return array[:size]


@cache
def _tests(one: ByteSet) -> tuple[_Test, ...]:
    """Return the tests one of which a byte of a set passes."""
    letters = one & _UPPER
    folds = one == letters | letters << 32  # both cases of each: with one bit set they are the same
    spans: list[_Test] = []
    for byte in members(letters << 32 if folds else one):
        if spans and spans[-1][2] == byte - 1:
            spans[-1] = (folds, spans[-1][1], byte)
        else:
            spans.append((folds, byte, byte))
    return tuple(spans)
