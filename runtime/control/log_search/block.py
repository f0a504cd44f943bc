"""The wanted lines of one block of readable text; pure."""

from collections.abc import Callable, Iterator
from functools import partial

from runtime.control.log_search.patterns import (
    Line,
    Wanted,
    last_stated,
    line_at,
    stated_rank,
)

_NEAR_LINES = 32
_WINDOW = 64 << 10


def wanted_lines(block: bytes, wanted: Wanted, carried: Callable[[], int]) -> Iterator[Line]:
    """Yield where the wanted lines lie, in order; `carried` gives the level before the first.

    A line that states no level (a traceback's) has that of the line before. Lines that cannot be
    wanted are jumped over from both sides: to the next that is found, to the next loud enough.
    """
    if wanted.is_impossible:
        return
    find = wanted.finder(block) if wanted.finder is not None else partial(line_at, block)
    ranks = _Ranks(block, carried)
    start = 0
    while line := find(start):
        if wanted.lowest == 0 or ranks.of(line) >= wanted.lowest:
            yield line
            start = line[1] + 1
            continue
        loud = wanted.next_loud(block, line[1] + 1)
        if loud is None:
            return
        start = loud[0]


def rank_at_end(block: bytes, first: int) -> int:
    """Return the level that a line behind a block inherits; the block's first inherits `first`."""
    end = len(block) + (not block.endswith(b"\n"))
    return _Ranks(block, lambda: first).before(end) if block else first


class _Ranks:
    """The levels of a block's lines, asked for in order."""

    def __init__(self, block: bytes, carried: Callable[[], int]) -> None:
        self._block = block
        self._carried = carried
        self._known_to = 0
        self._rank: int | None = None

    def of(self, line: Line) -> int:
        """Return the rank of a line: its own, or that of the last line before that states one."""
        own = stated_rank(self._block, line)
        if own is None:
            own = self.before(line[0])
        self._known_to, self._rank = line[1] + 1, own
        return own

    def before(self, start: int) -> int:
        """Return the rank of the last line before a line's start that states one."""
        place = start
        for _ in range(_NEAR_LINES):
            if place <= self._known_to:
                return self._inherited()
            end = place - 1
            place = max(self._block.rfind(b"\n", 0, end) + 1, self._known_to)
            rank = stated_rank(self._block, (place, end))
            if rank is not None:
                return rank
        size = _WINDOW
        while place > self._known_to:
            end, place = place, self._block.rfind(b"\n", 0, max(0, place - size)) + 1
            place = max(place, self._known_to)
            rank = last_stated(self._block, place, end)
            if rank is not None:
                return rank
            size *= 2
        return self._inherited()

    def _inherited(self) -> int:
        if self._rank is None:
            self._rank = self._carried()
        return self._rank
