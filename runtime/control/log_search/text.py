"""Blocks of a log as the text that is searched and shown: whole lines, UTF-8, made readable.

What is left of a line is what `runtime.observe.log_filter.plain` leaves of it; here it is done to a
block of megabytes at once, and costs next to nothing where the block has nothing to remove.
"""

import re

import numpy as np

MAX_LINE_BYTES = 1 << 20
"""A longer line is cut into lines of this length."""

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_LAST_RETURNS = re.compile(rb"\r+(?=\n|\Z)")
_OVERWRITTEN = re.compile(rb"(?m)^[^\n]*\r")


def readable(block: bytes) -> bytes:
    """Return the lines of a block as they are shown: the same number of lines as `cut_long` gives.

    A block begins at a line's start and ends at a line's end, or at the end of the file.
    """
    block = cut_long(block)
    if np.frombuffer(block, dtype=np.int8).min(initial=0) < 0:  # not ASCII; `isascii` locks
        block = _sound(block)
    if b"\r" in block:
        block = _OVERWRITTEN.sub(b"", _LAST_RETURNS.sub(b"", block))
    if b"\x1b" in block:
        block = _ANSI.sub(b"", block)
    if b"\0" in block:
        block = block.translate(None, b"\0")
    return block


def cut_long(block: bytes) -> bytes:
    """Return a block with a line break after each 1 MiB of a line."""
    start, pieces = 0, []
    taken = 0
    while len(block) - start > MAX_LINE_BYTES:
        end = block.rfind(b"\n", start, start + MAX_LINE_BYTES + 1)
        if end >= 0:
            start = end + 1
            continue
        start += MAX_LINE_BYTES
        pieces.append(block[taken:start])
        taken = start
    if not pieces:
        return block
    return b"\n".join([*pieces, block[taken:]])


def line_offsets(block: bytes) -> list[int]:
    """Return where each line of a block begins in it, in the order of `readable`'s lines."""
    offsets, place = [], 0
    for line in block.split(b"\n"):
        offsets += range(place, place + max(1, len(line)), MAX_LINE_BYTES)
        place += len(line) + 1
    return offsets


def _sound(block: bytes) -> bytes:
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode(errors="replace").encode()
    return block
