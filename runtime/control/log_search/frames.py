"""Captured text as zstd frames: each can be read by itself, and says what a search needs to know.

A frame holds whole lines, so that it is a block for `runtime.control.log_search.scan`. The frames
one after the other are an ordinary .zst file.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

import zstandard
from pydantic import BaseModel, ConfigDict

from runtime.control.log_search.patterns import DEFAULT_RANK, Wanted, compile_wanted
from runtime.control.log_search.scan import Block
from runtime.control.log_search.text import MAX_LINE_BYTES
from runtime.control.log_search.trigrams import frames_with
from runtime.observe.log_filter import LEVELS, LineFilter

FRAME_BYTES = 1 << 20
"""A frame is at least this long, the last one aside."""

_MAX_FRAME = 8 * MAX_LINE_BYTES
_LEVEL = 3


class Frame(BaseModel):
    """One frame: its text's place in the file, its own place in the stored object, its levels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    offset: int
    size: int
    stored_offset: int
    stored_size: int
    first_rank: int = DEFAULT_RANK
    """The level that its first line inherits."""
    top_rank: int = len(LEVELS) - 1
    """The highest level of its lines."""


def cut_frames(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield text that comes in pieces of any size as frames of whole lines.

    A line that is longer than a frame may be is cut where readers cut it.
    """
    held = b""
    for piece in pieces:
        held += piece
        while (end := _frame_end(held)) > 0:
            yield held[:end]
            held = held[end:]
    if held:
        yield held


def compress(text: bytes) -> bytes:
    """Return a text as one zstd frame with its size and checksum in it."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(text)


def decompress(data: bytes) -> bytes:
    """Return the text of one frame; raises zstandard.ZstdError for a damaged one."""
    return zstandard.ZstdDecompressor().decompress(data)


def top_rank(text: bytes, first: int) -> int:
    """Return the highest level of a readable text's lines, the first of which inherits `first`."""
    for rank in reversed(range(first + 1, len(LEVELS))):
        if _loud(rank).next_loud(text, 0) is not None:
            return rank
    return first


def frame_blocks(
    frames: list[Frame], wanted: Wanted, bitmaps: bytes, load: Callable[[Frame], bytes]
) -> Iterator[Block]:
    """Yield the blocks of frames that may hold wanted lines, the last one first."""
    worth = frames_with(wanted.clauses, bitmaps, len(frames))
    for frame, is_worth in zip(reversed(frames), reversed(worth), strict=True):
        if frame.top_rank < wanted.lowest or not is_worth:
            continue
        yield Block(
            offset=frame.offset,
            load=partial(load, frame),
            carried=partial(int, frame.first_rank),
        )


def _frame_end(held: bytes) -> int:
    """Return where the first frame of a text ends, 0 while it may go on."""
    if len(held) <= FRAME_BYTES:
        return 0
    end = held.find(b"\n", FRAME_BYTES - 1) + 1
    if 0 < end <= _MAX_FRAME:
        return end
    if len(held) <= _MAX_FRAME + 1:
        return 0
    start = held.rfind(b"\n", 0, FRAME_BYTES) + 1  # of the line that is too long
    cut = start + (_MAX_FRAME - start) // MAX_LINE_BYTES * MAX_LINE_BYTES
    return cut + 1 if held[cut : cut + 1] == b"\n" else cut


@cache
def _loud(rank: int) -> Wanted:
    return compile_wanted(LineFilter(level=LEVELS[rank]))
