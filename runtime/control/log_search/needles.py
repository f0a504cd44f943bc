"""Texts of which a wanted line holds one, for whoever can look for texts alone; pure.

A file server looks for them beside the log, so that not all of a log has to be sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.control.log_search.patterns import Wanted
from runtime.control.log_search.requirements import BREAK, ByteSet, Clause, Window, members
from runtime.control.log_search.scan import Find

MAX_TEXTS = 16
"""The most that a file server takes."""

EACH_BYTES = 64 << 10
"""What a file server shows at least around a text."""

_LEAST = 3
"""A shorter text is in too many lines."""

_CODES = (b"\x1b", b"\r", b"\0")
"""What `text.readable` removes: without it, a line may hold what it does not hold as written."""

_CASE = 0x20

_REPLACING = frozenset("\N{REPLACEMENT CHARACTER}".encode())
"""Stands in what is searched for bytes that are no UTF-8, and not in the file."""


class FindTexts(Protocol):
    """Looks for texts in one file, as `runtime.control.run_source.Finds` does."""

    def __call__(
        self, span: tuple[int, int], texts: Sequence[bytes], *, folds: bool
    ) -> tuple[Sequence[tuple[int, int]], int] | None:
        """Return spans of lines, the last one first, and the offset that it came back to."""
        ...


@dataclass(frozen=True, slots=True)
class Needles:
    """The texts; where `folds`, they are in lower case and meant in any."""

    texts: tuple[bytes, ...]
    folds: bool


def needles_of(wanted: Wanted) -> tuple[Needles, ...]:
    """Return texts of which each wanted line, as it is in its file, holds one; all that there are.

    The longest come first.
    """
    found = []
    for clause in wanted.clauses:
        for folds in (False, True):
            texts = _texts_of(clause, folds=folds)
            if texts is not None and len(texts) <= MAX_TEXTS - len(_CODES):
                found.append((min(map(len, texts)), Needles((*texts, *_CODES), folds)))
                break
    return tuple(one for _, one in sorted(found, key=lambda one: one[0], reverse=True))


def rarest(needles: Sequence[Needles], sample: bytes) -> Needles | None:
    """Return those that a piece of the log holds least; None where all are in every other place.

    To read a log is faster then than to be told where to read.
    """
    small = sample.lower()
    counts = [
        sum((small if one.folds else sample).count(text) for text in one.texts) for one in needles
    ]
    least = min(counts, default=0)
    if not needles or least * EACH_BYTES > len(sample):
        return None
    return needles[counts.index(least)]


def chosen_find(find: FindTexts, needles: Sequence[Needles], sample: bytes) -> Find | None:
    """Return what looks for the rarest of some texts; None where the log is better read."""
    found = rarest(needles, sample)
    if found is None:
        return None
    return lambda first, stop: find((first, stop), found.texts, folds=found.folds)


def _texts_of(clause: Clause, *, folds: bool) -> tuple[bytes, ...] | None:
    texts = [_longest(window, folds=folds) for window in clause]
    short = any(len(text) < _LEAST for text in texts)
    return None if short else tuple(dict.fromkeys(texts))


def _longest(window: Window, *, folds: bool) -> bytes:
    """Return the longest text that a window consists of somewhere."""
    longest = text = b""
    for one in window:
        byte = _byte(one, folds=folds)
        text = text + bytes([byte]) if byte is not None else b""
        longest = max(longest, text, key=len)
    return longest


def _byte(one: ByteSet, *, folds: bool) -> int | None:
    """Return the byte of a set of one, or with `folds` the small letter of a set of both cases."""
    if one & BREAK or one.bit_count() > 2:
        return None
    bytes_of = members(one)
    if not _REPLACING.isdisjoint(bytes_of):
        return None
    if not folds:
        return bytes_of[0] if len(bytes_of) == 1 else None
    small = {byte | _CASE if ord("A") <= byte <= ord("Z") else byte for byte in bytes_of}
    return small.pop() if len(small) == 1 else None
