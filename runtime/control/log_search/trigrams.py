"""Which three bytes in a row a block of text has: a bitmap by which a search leaves blocks out.

A hash decides the bit, so a bitmap may say yes too much and never no too much. Capital letters
count as small ones: a search in either case asks for one bit, not for eight. Logs captured by
releases before have smaller bitmaps that tell them apart; a bitmap's size says which it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from runtime.control.log_search.requirements import BREAK, ByteSet, Clause, Window, members

_MAX_PLACES = 512
"""A set of more trigrams than this is in any text."""
_MAX_TELLINGS = 12
_MULTIPLIER = np.uint32(0x9E3779B1)  # 2**32 over the golden ratio: Knuth's multiplicative hash

Places = np.ndarray[Any, np.dtype[np.uint32]]  # Any: of any dimension


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a bitmap was made."""

    log2_bits: int
    folds: bool

    @property
    def num_bytes(self) -> int:
        return 1 << self.log2_bits - 3

    def places(self, first: Places, second: Places, third: Places) -> Places:
        """Return the bits of trigrams of these bytes."""
        trigrams = first | (second << np.uint32(8)) | (third << np.uint32(16))
        return (trigrams * _MULTIPLIER) >> np.uint32(32 - self.log2_bits)

    def members(self, one: ByteSet) -> Places:
        """Return the bytes of a set as they are counted."""
        data = bytes(members(one))
        return np.array(sorted(set(data.lower() if self.folds else data)), dtype=np.uint32)


_KIND = _Kind(log2_bits=17, folds=True)
_KINDS = {kind.num_bytes: kind for kind in (_KIND, _Kind(log2_bits=16, folds=False))}


def bitmap_of(text: bytes) -> bytes:
    """Return the bitmap of a text; all bitmaps have one size."""
    data = np.frombuffer(text.lower(), dtype=np.uint8).astype(np.uint32)
    bits = np.zeros(1 << _KIND.log2_bits, dtype=bool)
    bits[_KIND.places(data[:-2], data[1:-1], data[2:])] = True
    return np.packbits(bits, bitorder="little").tobytes()


def frames_with(clauses: Sequence[Clause], bitmaps: bytes, num_frames: int) -> list[bool]:
    """Tell of each of several blocks, by their bitmaps, whether it may hold all clauses."""
    kind = _KINDS.get(len(bitmaps) // max(1, num_frames))
    if kind is None:
        return [True] * num_frames
    rows = np.frombuffer(bitmaps, dtype=np.uint8)[: num_frames * kind.num_bytes]
    rows = rows.reshape(num_frames, kind.num_bytes)
    alive = np.arange(num_frames)
    for clause in clauses:
        left, found = rows[alive], np.zeros(len(alive), dtype=bool)
        for window in clause:
            found |= _may_hold(left, kind, window)
        alive = alive[found]
    kept = set(alive.tolist())
    return [number in kept for number in range(num_frames)]


def _may_hold(
    rows: "np.ndarray[Any, np.dtype[np.uint8]]",  # Any: of two dimensions
    kind: _Kind,
    window: Window,
) -> "np.ndarray[Any, np.dtype[np.bool]]":  # Any: of one
    """Tell of some bitmaps whether their blocks may hold a window."""
    found = np.ones(len(rows), dtype=bool)
    for three in _tellings(window):
        first, second, third = map(kind.members, three)
        places = kind.places(first[:, None, None], second[:, None], third).ravel()
        bits = rows[:, places >> 3] & (1 << (places & 7)).astype(np.uint8)
        found &= bits.any(axis=1)
    return found


def _tellings(window: Window) -> list[Window]:
    """Return the few neighbours in a window that say most; an end of a line is no byte to find."""
    threes = [window[place : place + 3] for place in range(len(window) - 2)]
    sizes = {three: prod(one.bit_count() for one in three) for three in threes}
    known = [three for three, size in sizes.items() if BREAK not in three and size <= _MAX_PLACES]
    return sorted(known, key=lambda three: sizes[three])[:_MAX_TELLINGS]
