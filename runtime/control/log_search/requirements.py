"""What every line that a regular expression matches must hold, worked out from the pattern; pure.

A window is a few sets of bytes in a row: `\\d+ms` needs a digit, an m and an s. A clause is several
windows, one of which a line must hold. `trigrams` leaves frames out by clauses, `sieve` lines.

Python's parser reads the pattern. RE2 has compiled it before, and nothing is concluded where the
two could read it otherwise.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import product
from math import log2
from typing import Any

import re2

from runtime.control.log_search.spelling import for_python

ByteSet = int
"""Bit b says whether byte b belongs to it."""
Window = tuple[ByteSet, ...]
Clause = tuple[Window, ...]

BREAK: ByteSet = 1 << 10
"""A line's begin or end. No match holds a line break, so that it stands for nothing else."""

MAX_WINDOW = 32
"""A window is no longer."""

_Node = tuple[Any, Any]  # re's own tree, which nothing describes

_MAX_PATTERN = 2_000
_MAX_JOINED = 16
_MAX_CHOICES = 64
_MAX_TIMES = 4
_NOTHING: Clause = ((),)


def byte_set(data: bytes) -> ByteSet:
    """Return the set of these bytes."""
    return reduce(lambda found, byte: found | 1 << byte, data, 0)


@cache
def members(one: ByteSet) -> tuple[int, ...]:
    """Return the bytes of a set."""
    return tuple(byte for byte in range(256) if one >> byte & 1)


def _span(first: int, last: int) -> ByteSet:
    return (1 << last + 1) - (1 << first)


_ASCII = _span(0, 127)
_LEADS = _span(0xC2, 0xF4)
_TRAILS = _span(0x80, 0xBF)
_DIGITS = byte_set(b"0123456789")
_UPPER = _span(0x41, 0x5A)
_LOWER = _span(0x61, 0x7A)
# The Kelvin sign and the long s are a k and an s to RE2: the letters, first byte, last byte.
_FOLDS = (
    (byte_set(b"Kk"), byte_set(b"\xe2"), byte_set(b"\xaa")),
    (byte_set(b"Ss"), byte_set(b"\xc5"), byte_set(b"\xbf")),
)
_CATEGORIES = {
    "DIGIT": _DIGITS,
    "SPACE": byte_set(b"\t\n\f\r "),
    "WORD": _DIGITS | _UPPER | _LOWER | byte_set(b"_"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What a part of a pattern matches: begins with one of `first`, ends with one of `last`.

    One that is exact is one of `first` and no more. Between the two, `inner` must all be found.
    """

    first: Clause
    last: Clause
    inner: tuple[Clause, ...] = ()
    is_exact: bool = False


_EMPTY = _Part(first=_NOTHING, last=_NOTHING, is_exact=True)
_ANYTHING = _Part(first=_NOTHING, last=_NOTHING)


def required_clauses(pattern: str) -> list[Clause]:
    """Return clauses that must all hold in whatever a pattern of RE2's matches within a line."""
    if len(pattern) > _MAX_PATTERN:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed = re._parser.parse(for_python(pattern))  # type: ignore[attr-defined]  # no public way in
            part = _sequence(parsed, bool(parsed.state.flags & re.IGNORECASE))
    except (re.error, re2.error, Warning, RecursionError, OverflowError):
        return []
    return list(dict.fromkeys(_clauses(part)))


def text_clauses(text: bytes) -> list[Clause]:
    """Return the clauses of a text: that it is found, piece by piece."""
    pieces = [text[place : place + MAX_WINDOW] for place in range(0, len(text), MAX_WINDOW)]
    return [(tuple(1 << byte for byte in piece),) for piece in pieces]


def weight(window: Window) -> float:
    """Return how many bytes a window is worth: a set of many says less than a byte."""
    return sum(1.0 - log2(max(1, one.bit_count())) / 8 for one in window)


def _clauses(part: _Part) -> list[Clause]:
    ends = (part.first,) if part.is_exact else (part.first, part.last)
    found = [_without_longer(clause) for clause in (*part.inner, *ends)]
    return [clause for clause in found if min(map(weight, clause)) > 0]


def _without_longer(clause: Clause) -> Clause:
    """Return a clause without the windows that hold another of its windows."""
    kept: list[Window] = []
    for window in sorted(set(clause), key=len):
        if not any(_holds(window, short) for short in kept):
            kept.append(window)
    return tuple(kept)


def _holds(window: Window, short: Window) -> bool:
    return any(
        all(one & ~other == 0 for one, other in zip(window[place:], short, strict=False))
        for place in range(len(window) - len(short) + 1)
    )


def _sequence(nodes: Sequence[_Node], folds: bool) -> _Part:
    return reduce(_after, (_part(node, folds) for node in nodes), _EMPTY)


def _part(node: _Node, folds: bool) -> _Part:
    value = node[1]
    match str(node[0]):
        case "LITERAL" if value > 127 and not folds:
            return _exact((tuple(1 << byte for byte in chr(value).encode()),))
        case "LITERAL" | "IN" | "NOT_LITERAL" | "ANY":
            return _character(node, folds)
        case "AT":
            is_edge = str(value) in {"AT_BEGINNING", "AT_END", "AT_BEGINNING_STRING"}
            return _exact(((BREAK,),)) if is_edge else _EMPTY
        case "BRANCH":
            return _or([_sequence(one, folds) for one in value[1]])
        case "SUBPATTERN":
            folds = bool((folds or value[1] & re.IGNORECASE) and not value[2] & re.IGNORECASE)
            return _sequence(value[3], folds)
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeated(_sequence(value[2], folds), value[0], value[1])
        case _:
            return _ANYTHING


def _character(node: _Node, folds: bool) -> _Part:
    """Return the part of one character; one beyond ASCII has several bytes."""
    found, has_others = _members(node, folds)
    found &= ~BREAK
    if has_others:
        return _Part(first=((found | _LEADS,),), last=((found | _TRAILS,),))
    lead = trail = 0
    for letters, first, last in _FOLDS if folds else ():
        if found & letters:
            lead, trail = lead | first, trail | last
    if lead:
        return _Part(first=((found | lead,),), last=((found | trail,),))
    return _exact(((found,),))


def _members(node: _Node, folds: bool) -> tuple[ByteSet, bool]:
    """Return the ASCII characters of a class, and whether it names others."""
    kind = str(node[0])
    if kind == "ANY":
        return _ASCII, True
    rows = node[1] if kind == "IN" else [("LITERAL", node[1])]
    found, has_others, is_negated = 0, False, kind == "NOT_LITERAL"
    for name, of in ((str(row[0]), row[1]) for row in rows):
        if name == "NEGATE":
            is_negated = True
        elif name == "CATEGORY":
            is_not, _, category = str(of).removeprefix("CATEGORY_").rpartition("_")
            found |= _ASCII & ~_CATEGORIES[category] if is_not else _CATEGORIES[category]
            has_others = has_others or bool(is_not)
        else:
            first, last = of if name == "RANGE" else (of, of)
            found |= _span(first, min(last, 127)) if first <= 127 else 0
            has_others = has_others or last > 127
    if folds:
        found |= (found & _UPPER) << 32 | (found & _LOWER) >> 32
    if is_negated:
        return _ASCII & ~found, True
    if folds and has_others:
        found |= _FOLDS[0][0] | _FOLDS[1][0]
    return found, has_others


def _exact(windows: Clause) -> _Part:
    return _Part(first=windows, last=windows, is_exact=True)


def _after(one: _Part, other: _Part) -> _Part:
    """Return the part of one part and another right behind it."""
    joined = _joined(one.last, other.first)
    if one.is_exact and other.is_exact:
        return _exact(joined) if joined else _Part(first=one.first, last=other.last)
    first, last, between = one.first, other.last, [joined] if joined else [one.last, other.first]
    if one.is_exact:
        first = between.pop(0)
    if other.is_exact:
        last = between.pop()
    return _Part(first=first, inner=(*one.inner, *between, *other.inner), last=last)


def _joined(first: Clause, last: Clause) -> Clause | None:
    """Return each window of a clause with each of another behind it; None for too many."""
    if len(first) * len(last) > _MAX_JOINED:
        return None
    # two ends of a line in a row are one: they have no width
    found = [
        one + (other[1:] if one[-1:] == other[:1] == (BREAK,) else other)
        for one, other in product(first, last)
    ]
    return tuple(dict.fromkeys(found)) if max(map(len, found)) <= MAX_WINDOW else None


def _or(parts: Sequence[_Part]) -> _Part:
    """Return the part that is one of several."""
    first, last = _either([one.first for one in parts]), _either([one.last for one in parts])
    if all(one.is_exact for one in parts) and first is not None:
        return _exact(first)
    best = [max(_clauses(one), key=_clause_weight, default=_NOTHING) for one in parts]
    inner = _either(best) or _NOTHING
    return _Part(first=first or _NOTHING, inner=(inner,), last=last or _NOTHING)


def _either(clauses: Sequence[Clause]) -> Clause | None:
    """Return the clause that one of several holds; None for too many windows."""
    found = tuple(dict.fromkeys(window for clause in clauses for window in clause))
    return found if len(found) <= _MAX_CHOICES else None


def _clause_weight(clause: Clause) -> float:
    return min(map(weight, clause))


def _repeated(part: _Part, least: int, most: int) -> _Part:
    """Return the part that is a part `least` to `most` times."""
    if part.is_exact and most <= _MAX_TIMES:
        return _or([_times(part, number) for number in range(least, most + 1)])
    if least == 0:
        return _ANYTHING
    found = _times(part, min(least, MAX_WINDOW))
    return replace(found, is_exact=found.is_exact and least == most <= MAX_WINDOW)


def _times(part: _Part, number: int) -> _Part:
    return reduce(_after, [part] * number, _EMPTY)
