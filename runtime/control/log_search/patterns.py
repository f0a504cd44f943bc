"""What a block of log text is searched for: a text or a regular expression, and a lowest level.

Regular expressions are RE2's: their time is linear in the text, whoever wrote them. A pattern is
searched for in a whole block; never_nl keeps a match within its line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import re2

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
# A pattern with these means the line's ends by words that are the text's ends in a block.
_TEXT_ENDS = re.compile(r"\\[AzZC]|\(\?[A-Za-z]*-?[A-Za-z]*m|\(\?[A-Za-z]*-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is searched for, compiled; `find` returns the first line at or after an offset."""

    find: Callable[[bytes, int], Line | None] | None = None
    needle: bytes | None = None
    pattern: str | None = None
    is_impossible: bool = False
    lowest: int = 0
    next_loud: Callable[[bytes, int], Line | None] = lambda block, start: None

    @property
    def is_everything(self) -> bool:
        """Tell whether every line is wanted."""
        return self.find is None and self.lowest == 0


def compile_wanted(wanted: LineFilter) -> Wanted:
    """Return what a filter asks for; raises SettingsError for what RE2 does not take."""
    made = Wanted(lowest=_rank_of(wanted.level), next_loud=_loud_finder(_rank_of(wanted.level)))
    if not wanted.search:
        return made
    if wanted.is_regex:
        return replace(made, find=_regex_finder(wanted.search), pattern=wanted.search)
    if "\n" in wanted.search or wanted.search != wanted.search.encode(errors="replace").decode():
        return replace(made, is_impossible=True)  # no line holds a break, or half a character
    find = _line_finder(_compiled(re2.escape(wanted.search)))
    return replace(made, find=find, needle=wanted.search.encode())


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
    """Return the line that an offset lies in, None behind the last."""
    if place >= len(block):
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


def _regex_finder(pattern: str) -> Callable[[bytes, int], Line | None]:
    if _TEXT_ENDS.search(pattern) is None:
        return _line_finder(_compiled(pattern))
    compiled = _compiled(pattern, is_line=True)

    def find(block: bytes, start: int) -> Line | None:
        while line := line_at(block, start):
            if compiled.search(block[line[0] : line[1]]) is not None:
                return line
            start = line[1] + 1
        return None

    return find


def _line_finder(pattern: "re2._Regexp") -> Callable[[bytes, int], Line | None]:
    def find(block: bytes, start: int) -> Line | None:
        if start >= len(block):
            return None
        found = pattern.search(block, start)
        return None if found is None else line_at(block, found.start())

    return find


def _compiled(pattern: str, *, is_line: bool = False) -> "re2._Regexp":
    options = re2.Options()
    options.never_nl = not is_line
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        written = pattern.encode()
        re2.compile(written, options)  # by itself, so that no parenthesis of it closes ours
        return re2.compile(written if is_line else b"(?m:" + written + b")", options)
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
