"""The last wanted lines of a log, read from its end block by block; no more than is needed.

Files are read in pieces and never mapped: a run may cut its own log while it is read. A few blocks
are searched at once, since RE2, unpacking and reading leave Python's lock to others.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from runtime.control.log_search.block import wanted_lines
from runtime.control.log_search.patterns import DEFAULT_RANK, Line, Wanted, last_stated
from runtime.control.log_search.text import MAX_LINE_BYTES, line_offsets, readable

Read = Callable[[int, int], bytes]
"""(offset, size) -> bytes; fewer only at the end of the file."""

Find = Callable[[int, int], tuple[Sequence[tuple[int, int]], int] | None]
"""(start, stop) -> spans of lines, the last one first, and the offset that it came back to."""

Choose = Callable[[bytes], Find | None]

MAX_FOUND_CHARS = 32 << 20
"""What one search returns at most: a page of 5000 lines of 1 MiB each fits no memory."""

_FIRST_BLOCK = 128 << 10
_MAX_BLOCK = 4 << 20
_READ_AT_ONCE = 1 << 20
_SAMPLE = 256 << 10
_NUM_AT_ONCE = min(4, max(2, os.cpu_count() or 1))
"""One core a block; not all of a large machine's for one search."""


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A wanted line, readable, and where it begins in its file."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a log; `carried` gives the level that its first line inherits."""

    offset: int
    load: Callable[[], bytes]
    carried: Callable[[], int]


def last_lines(blocks: Iterator[Block], wanted: Wanted, num_lines: int) -> list[FoundLine]:
    """Return the last wanted lines of blocks that come from a log's end backwards, oldest first.

    No more than MAX_FOUND_CHARS of them, whatever `num_lines` says, but at least one.
    """
    found: list[list[FoundLine]] = []
    missing, num_chars = num_lines, 0
    with ThreadPoolExecutor(_NUM_AT_ONCE) as pool:
        for lines in _ahead(pool, lambda block: _search(block, wanted, num_lines), blocks):
            kept = []
            for line in reversed(lines[max(0, len(lines) - missing) :]):
                num_chars += len(line.text)
                if num_chars > MAX_FOUND_CHARS and missing < num_lines:
                    missing = 0
                    break
                kept.append(line)
                missing -= 1
            found.append(kept[::-1])
            if missing == 0:
                break
    return [line for lines in reversed(found) for line in lines]


def file_blocks(read: Read, start: int, end: int) -> Iterator[Block]:
    """Yield the blocks of a file from `end` back to `start`, which begins a line."""
    levels = _Levels(read)
    for begin, stop in _spans(read, start, end):
        yield Block(
            offset=begin,
            load=partial(read, begin, stop - begin),
            carried=partial(levels.before, begin),
        )


def sought_blocks(read: Read, choose: Choose, start: int, end: int) -> Iterator[Block]:
    """Yield the blocks of a file that may hold wanted lines, from `end` back to `start`.

    What is wanted is often near the end: that is read. Then `choose` returns for a piece of it what
    is told where it may look, and answers with spans of whole lines and how far it came, or None.
    What it does not reach is read.
    """
    levels, stop = _Levels(read), end
    for block in file_blocks(read, start, end):
        yield block
        stop = block.offset
        if end - stop >= _READ_AT_ONCE:
            break
    find = choose(read(stop, min(_SAMPLE, end - stop))) if stop > start else None
    while stop > start:
        found = find(start, stop) if find is not None else None
        if found is None or not start <= found[1] < stop:
            yield from file_blocks(read, start, stop)
            return
        for first, last in found[0]:
            yield Block(
                offset=first,
                load=partial(read, first, last - first),
                carried=partial(levels.before, first),
            )
        stop = found[1]


class _Levels:
    """The level that a place of a file inherits; what is known of a stretch without one is kept."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known = (0, 0, DEFAULT_RANK)

    def before(self, end: int) -> int:
        """Return the level of the last line before `end` that states one."""
        with self._lock:
            first, last, rank = self._known
            if not first <= end <= last:
                first, rank = self._look(end)
                self._known = (first, end, rank)
            return rank

    def _look(self, end: int) -> tuple[int, int]:
        for begin, stop in _spans(self._read, 0, end):
            text = readable(self._read(begin, stop - begin))
            rank = last_stated(text, 0, len(text))
            if rank is not None:
                return stop, rank
        return 0, DEFAULT_RANK


def _spans(read: Read, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the blocks of a file begin and end, the last one first."""
    size, stop = _FIRST_BLOCK, end
    while stop > start:
        begin = _line_start(read, start, stop, size)
        if stop - begin > 2 * _MAX_BLOCK:  # one line, as long as that
            yield from _pieces(read, begin, stop)
        else:
            yield begin, stop
        stop = begin
        size = min(2 * size, _MAX_BLOCK)


def _pieces(read: Read, begin: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the blocks of one very long line; each begins where the line would be cut."""
    assert _MAX_BLOCK % MAX_LINE_BYTES == 0, "a block is whole lines, as they are cut"
    end = stop - 1 if read(stop - 1, 1) == b"\n" else stop
    for place in reversed(range(begin, end, _MAX_BLOCK)):
        yield place, stop if place + _MAX_BLOCK >= end else place + _MAX_BLOCK


def _line_start(read: Read, start: int, stop: int, size: int) -> int:
    """Return where the line begins that is about `size` before `stop`."""
    edge = stop - size
    while edge > start:
        # a break right before `stop` ends the last line, and begins none of this block
        piece = read(max(start, edge - _FIRST_BLOCK), min(_FIRST_BLOCK, edge - start))
        place = piece.rfind(b"\n")
        if place >= 0:
            return edge - len(piece) + place + 1
        edge -= len(piece)
        if not piece:
            break
    return start


def _search(block: Block, wanted: Wanted, num_lines: int) -> list[FoundLine]:
    raw = block.load()
    text = readable(raw)
    lines = deque(wanted_lines(text, wanted, block.carried), maxlen=num_lines)
    return _with_offsets(lines, text, raw, block.offset)


def _with_offsets(lines: Collection[Line], text: bytes, raw: bytes, offset: int) -> list[FoundLine]:
    if not lines:
        return []
    starts = None if text is raw else line_offsets(raw)
    found, number, counted = [], 0, 0
    for begin, end in lines:
        place = begin
        if starts is not None:
            number += text.count(b"\n", counted, begin)
            counted, place = begin, starts[number]
        found.append(FoundLine(text[begin:end].decode(errors="replace"), offset + place))
    return found


def _ahead(
    pool: ThreadPoolExecutor,
    search: Callable[[Block], list[FoundLine]],
    blocks: Iterator[Block],
) -> Iterator[list[FoundLine]]:
    """Yield what a search finds in each block, in order, a few blocks ahead of the asker."""
    waiting = [pool.submit(search, block) for block in islice(blocks, _NUM_AT_ONCE)]
    while waiting:
        yield waiting.pop(0).result()
        waiting += [pool.submit(search, block) for block in islice(blocks, 1)]
