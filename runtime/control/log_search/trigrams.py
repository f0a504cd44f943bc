"""Which three bytes in a row a block of text has: a bitmap by which a search leaves blocks out.

A hash decides the bit, so a bitmap may say yes too much and never no too much.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

NUM_BITS = 1 << 16
BITMAP_BYTES = NUM_BITS // 8

_MULTIPLIER = np.uint32(0x9E3779B1)  # 2**32 over the golden ratio: Knuth's multiplicative hash


def bitmap_of(text: bytes) -> bytes:
    """Return the bitmap of a text, BITMAP_BYTES long."""
    bits = np.zeros(NUM_BITS, dtype=bool)
    bits[_places(text)] = True
    return np.packbits(bits, bitorder="little").tobytes()


class Needles:
    """Texts that a block must hold, all of them, to be worth a look."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        """Ask for these texts."""
        places = {int(place) for text in texts for place in _places(text)}
        self._bits = [(place >> 3, 1 << (place & 7)) for place in sorted(places)]

    def may_be_in(self, bitmap: bytes) -> bool:
        """Tell whether a block of this bitmap may hold them."""
        return all(bitmap[index] & bit for index, bit in self._bits)


def required_texts(pattern: str) -> list[bytes]:
    """Return texts that whatever a regular expression matches must hold; none where unsure.

    Python's parser reads it: what it reads otherwise than RE2 is not looked into.
    """
    if "[:" in pattern or "\\Q" in pattern:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]  # no public way in
    except (re.error, Warning, RecursionError, OverflowError):
        return []
    if parsed.state.flags & (re.IGNORECASE | re.VERBOSE) or "(?i" in pattern:
        return []
    found: list[bytes] = []
    _collect(parsed, found)
    return found


def _collect(parts: Sequence[tuple[Any, Any]], found: list[bytes]) -> None:  # Any: re's own tree
    run = ""
    for kind, value in parts:
        name = str(kind)
        if name == "LITERAL":
            run += chr(value)
            continue
        _keep(run, found)
        run = ""
        if name == "SUBPATTERN" and not value[1]:
            _collect(value[3], found)
        elif name in {"MAX_REPEAT", "MIN_REPEAT"} and value[0] > 0:
            _collect(value[2], found)
    _keep(run, found)


def _keep(run: str, found: list[bytes]) -> None:
    text = run.encode(errors="replace") if run else b""
    if len(text) >= 3 and b"\n" not in text:
        found.append(text)


def _places(text: bytes) -> "np.ndarray[Any, np.dtype[np.uint32]]":  # Any: of one dimension
    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint32)
    if len(data) < 3:
        return np.zeros(0, dtype=np.uint32)
    trigrams = data[:-2] | (data[1:-1] << np.uint32(8)) | (data[2:] << np.uint32(16))
    return (trigrams * _MULTIPLIER) >> np.uint32(16)
