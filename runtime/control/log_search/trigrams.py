"""Which three bytes in a row a block of text has: a bitmap by which a search leaves blocks out.

A hash decides the bit, so a bitmap may say yes too much and never no too much.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from runtime.control.log_search.requirements import BREAK, ByteSet, Clause, Window

NUM_BITS = 1 << 16
BITMAP_BYTES = NUM_BITS // 8

_MAX_PLACES = 512
"""A set of more trigrams than this is in any text."""
_MAX_TELLINGS = 12

Places = np.ndarray[Any, np.dtype[np.uint32]]  # Any: of any dimension

_MULTIPLIER = np.uint32(0x9E3779B1)  # 2**32 over the golden ratio: Knuth's multiplicative hash


def bitmap_of(text: bytes) -> bytes:
    """Return the bitmap of a text, BITMAP_BYTES long."""
    bits = np.zeros(NUM_BITS, dtype=bool)
    bits[_places_of_text(text)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def frames_with(clauses: Sequence[Clause], bitmaps: bytes) -> list[bool]:
    """Tell of each of several blocks, by their bitmaps, whether it may hold all clauses."""
    rows = np.frombuffer(bitmaps, dtype=np.uint8).reshape(-1, BITMAP_BYTES)
    alive = np.arange(len(rows))
    for clause in clauses:
        found = np.zeros(len(alive), dtype=bool)
        for window in clause:
            found |= _may_hold(rows, alive, window)
        alive = alive[found]
    kept = set(alive.tolist())
    return [number in kept for number in range(len(rows))]


def _may_hold(
    rows: "np.ndarray[Any, np.dtype[np.uint8]]",  # Any: of two dimensions
    alive: "np.ndarray[Any, np.dtype[np.intp]]",  # Any: of one
    window: Window,
) -> "np.ndarray[Any, np.dtype[np.bool]]":  # Any: of one
    """Tell of some rows whether they may hold a window."""
    found = np.ones(len(alive), dtype=bool)
    for three in _tellings(window):
        first, second, third = map(_members, three)
        places = _hashed(first[:, None, None], second[:, None], third).ravel()
        bits = rows[alive[found]][:, places >> 3] & (1 << (places & 7)).astype(np.uint8)
        found[found] = bits.any(axis=1)
    return found


def _tellings(window: Window) -> list[Window]:
    """Return the few neighbours in a window that say most; an end of a line is no byte to find."""
    threes = [window[place : place + 3] for place in range(len(window) - 2)]
    sizes = {three: prod(one.bit_count() for one in three) for three in threes}
    known = [three for three, size in sizes.items() if BREAK not in three and size <= _MAX_PLACES]
    return sorted(known, key=lambda three: sizes[three])[:_MAX_TELLINGS]


def _members(one: ByteSet) -> Places:
    return np.array([byte for byte in range(256) if one >> byte & 1], dtype=np.uint32)


def _places_of_text(text: bytes) -> Places:
    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint32)
    return _hashed(data[:-2], data[1:-1], data[2:])


def _hashed(first: Places, second: Places, third: Places) -> Places:
    trigrams = first | (second << np.uint32(8)) | (third << np.uint32(16))
    return (trigrams * _MULTIPLIER) >> np.uint32(16)
