"""What a block of log text is searched for: a text or a regular expression, and a lowest level.

Regular expressions are RE2's: their time is linear in the text, whoever wrote them. A pattern is
searched for in a whole block; never_nl keeps a match within its line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import re2

from runtime.control.log_search.requirements import Clause, required_clauses, text_clauses
from runtime.control.log_search.sieve import Sieve
from runtime.control.log_search.spelling import for_lines
from runtime.errors import Problem, SettingsError
from runtime.observe.log_filter import LEVELS, LineFilter, level_of

_MAX_MEMORY = 64 << 20
_WINDOW = 256 << 10
_FEW_WORDS = 2
DEFAULT_RANK = LEVELS.index("INFO")
"""The level of lines before the first that states one."""

Line = tuple[int, int]
"""Where a line of a block begins and ends, without its line break."""

# Wider than `level_of`, which has the last word: letters of any script count as RE2's \w there.
_HEAD = r"(?:\[(?:\w|[^\x00-\x7f])+\]:?[\s\v\x1c-\x1f[:^ascii:]]*)*"
_TIME = r"[\d\s\v\x1c-\x1fT:.,+/()\[\]|[:^ascii:]-]*"
_ONE_BYTE = re.compile(r"\\C")

Find = Callable[[int], Line | None]
"""Returns the first wanted line of a block at or after an offset."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is searched for, compiled; `finder` takes a block, and wanted lines hold `clauses`."""

    finder: Callable[[bytes], Find] | None = None
    clauses: tuple[Clause, ...] = ()
    is_impossible: bool = False
    lowest: int = 0
    next_loud: Callable[[bytes, int], Line | None] = lambda block, start: None

    @property
    def is_everything(self) -> bool:
        """Tell whether every line is wanted."""
        return self.finder is None and self.lowest == 0


def compile_wanted(wanted: LineFilter) -> Wanted:
    """Return what a filter asks for; raises SettingsError for what RE2 does not take."""
    made = Wanted(lowest=_rank_of(wanted.level), next_loud=_loud_finder(_rank_of(wanted.level)))
    if not wanted.search:
        return made
    if wanted.is_regex:
        return _regex_wanted(made, wanted.search)
    if "\n" in wanted.search or wanted.search != wanted.search.encode(errors="replace").decode():
        return replace(made, is_impossible=True)  # no line holds a break, or half a character
    clauses = tuple(text_clauses(wanted.search.encode()))
    finder = _sieved(_compiled(re2.escape(wanted.search)), clauses)
    return replace(made, finder=finder, clauses=clauses)


def stated_rank(block: bytes, line: Line) -> int | None:
    """Return the rank of the level that a line of a block states, None for one that states none."""
    stated = level_of(block[line[0] : line[1]].decode(errors="replace"))
    return LEVELS.index(stated) if stated is not None else None


def last_stated(block: bytes, start: int, end: int) -> int | None:
    """Return the rank that the last line to state one does, among whole lines of a block."""
    found = None
    while line := _ANY_LEVEL(block, start):
        if line[0] >= end:
            break
        rank = stated_rank(block, line)
        found = rank if rank is not None else found
        start = line[1] + 1
    return found


def line_at(block: bytes, place: int) -> Line | None:
    """Return the line that an offset lies in or ends, None behind the last."""
    if place > len(block) or (place == len(block) and block[-1:] in {b"", b"\n"}):
        return None
    end = block.find(b"\n", place)
    return block.rfind(b"\n", 0, place) + 1, len(block) if end < 0 else end


def _rank_of(level: str | None) -> int:
    if level is None:
        return 0
    upper = "WARNING" if level.upper() == "WARN" else level.upper()
    if upper not in LEVELS:
        problem = Problem(loc=("--level",), message=f"{level!r} is none of {', '.join(LEVELS)}")
        raise SettingsError([problem])
    return LEVELS.index(upper)


def _stated(levels: tuple[str, ...]) -> str:
    """Return a pattern for lines that may state one of these levels."""
    words = "|".join((*levels, "WARN") if "WARNING" in levels else levels)
    value = rf'(?:(?i:{words})"|[^"\n]*\\)'
    return rf'^(?:{_HEAD}{_TIME}(?:{words})|\{{.*:\s*"{value})'


def _loud_finder(lowest: int) -> Callable[[bytes, int], Line | None]:
    """Return what finds the next line that states this level or one above."""
    candidate = _line_finder(_compiled(_stated(LEVELS[lowest:])))
    # RE2 looks for one word four times as fast as for a line that begins like this
    words = LEVELS[lowest:] if len(LEVELS) - lowest <= _FEW_WORDS else ()
    traces = [_compiled(word) for word in words] + [_compiled("\n{", is_line=True)]

    def find(block: bytes, start: int) -> Line | None:
        while start < len(block):
            if words and not block.startswith(b"{", start):
                end = block.find(b"\n", start + _WINDOW)
                end = len(block) if end < 0 else end
                if all(trace.search(block, start, end) is None for trace in traces):
                    start = end + 1
                    continue
            line = candidate(block, start)
            if line is None:
                return None
            rank = stated_rank(block, line)
            if rank is not None and rank >= lowest:
                return line
            start = line[1] + 1
        return None

    return find


def _regex_wanted(made: Wanted, pattern: str) -> Wanted:
    _check(pattern)
    if _ONE_BYTE.search(pattern) is not None:
        return replace(made, finder=partial(_by_line, _compiled(pattern, is_line=True)))
    pattern = for_lines(pattern)
    clauses = tuple(required_clauses(pattern))
    return replace(made, finder=_sieved(_compiled(pattern), clauses), clauses=clauses)


def _by_line(pattern: "re2._Regexp", block: bytes) -> Find:
    """Find in each line by itself: a byte of any value may be a line break to a pattern."""

    def find(start: int) -> Line | None:
        while line := line_at(block, start):
            if pattern.search(block[line[0] : line[1]]) is not None:
                return line
            start = line[1] + 1
        return None

    return find


def _sieved(pattern: "re2._Regexp", clauses: tuple[Clause, ...]) -> Callable[[bytes], Find]:
    """Find only where a block holds what a match must."""
    sieve = Sieve(clauses)

    def finder(block: bytes) -> Find:
        places = sieve.places(block)

        def find(start: int) -> Line | None:
            while stretch := places.stretch(start):
                found = pattern.search(block, *stretch)
                if found is not None:
                    return line_at(block, found.start())
                start = stretch[1] + 1
            return None

        return find

    return finder


def _line_finder(pattern: "re2._Regexp") -> Callable[[bytes, int], Line | None]:
    def find(block: bytes, start: int) -> Line | None:
        if start >= len(block):
            return None
        found = pattern.search(block, start)
        return None if found is None else line_at(block, found.start())

    return find


def _check(pattern: str) -> None:
    """Raise SettingsError for what RE2 does not take."""
    _compiled(pattern, is_line=True)


def _compiled(pattern: str, *, is_line: bool = False) -> "re2._Regexp":
    options = re2.Options()
    options.never_nl = not is_line
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        written = pattern.encode()
        return re2.compile(written if is_line else b"(?m)" + written, options)
    except (re2.error, UnicodeEncodeError) as error:
        words = error.args[0] if error.args else "it cannot be read"
        said = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        problem = Problem(
            loc=("--search",),
            message=f"{pattern!r} is no regular expression of RE2: {said}",
            fix="RE2 has no look-around and no back-references",
        )
        raise SettingsError([problem]) from None


_ANY_LEVEL = _line_finder(_compiled(_stated(LEVELS)))
