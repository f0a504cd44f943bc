"""Filters over log lines: level, search, and the reading of `--since`; pure functions.

A line of a log has no date (loguru writes HH:MM:SS), so time is not judged here: the wrapper's
index beside the log says where a time begins, and `runtime.observe.logs` starts to read there.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from runtime.errors import Problem, SettingsError

LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
"""Levels from the lowest to the highest; a filter shows its own level and those above."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RELATIVE = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Before the level stand at most names in brackets (torchrun's ranks) and a time.
_LEVEL_WORD = re.compile(
    r"(?:\[\w+\]:?\s*)*[\d\sT:.,+/()\[\]|-]*"
    r"(TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LineFilter:
    """What lines are wanted: a lowest level, and a text or a regular expression that they hold."""

    level: str | None = None
    search: str | None = None
    is_regex: bool = False


def parse_since(text: str, *, now: float) -> float:
    """Return the Unix time that `--since` names: 10m, 2h, 900, or an ISO time; naive means UTC.

    Raises SettingsError for anything else.
    """
    match = _RELATIVE.fullmatch(text.strip())
    if match is not None:
        return now - float(match[1]) * _SECONDS[match[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SettingsError(
            [
                Problem(
                    loc=("--since",),
                    message=f"{text!r} is not a time",
                    fix="10m, 2h, 1d, or 2026-11-29T10:00:00Z; a time without a zone is UTC",
                )
            ]
        ) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def plain(line: str) -> str:
    """Return a line without colour codes and NULs, and of a progress bar what is seen last."""
    return _ANSI.sub("", line.rstrip("\r").rpartition("\r")[2]).replace("\0", "")


def level_of(line: str) -> str | None:
    """Return the level that a line states, None for a line that states none."""
    if line.startswith("{"):
        try:
            row = json.loads(line)
        except ValueError:
            return None
        level = row.get("level") if isinstance(row, dict) else None
        return _known(level) if isinstance(level, str) else None
    match = _LEVEL_WORD.match(line)
    return _known(match[1]) if match is not None else None


def filter_lines(lines: Iterable[str], wanted: LineFilter) -> Iterator[str]:
    """Yield the wanted lines; one that states no level (a traceback's) has that of the line before.

    Raises SettingsError for an unknown level or a regular expression that does not compile.
    """
    is_found = _matcher(wanted)
    lowest = _rank(wanted.level)
    current = LEVELS.index("INFO")
    for line in lines:
        stated = level_of(line)
        current = LEVELS.index(stated) if stated is not None else current
        if current >= lowest and is_found(line):
            yield line


def _known(level: str) -> str | None:
    upper = level.upper()
    upper = "WARNING" if upper == "WARN" else upper
    return upper if upper in LEVELS else None


def _rank(level: str | None) -> int:
    if level is None:
        return 0
    known = _known(level)
    if known is None:
        raise SettingsError(
            [Problem(loc=("--level",), message=f"{level!r} is none of {', '.join(LEVELS)}")]
        )
    return LEVELS.index(known)


def _matcher(wanted: LineFilter) -> Callable[[str], bool]:
    if wanted.search is None:
        return lambda line: True
    search = wanted.search
    if not wanted.is_regex:
        return lambda line: search in line
    try:
        pattern = re.compile(search)
    except re.error as error:
        raise SettingsError(
            [Problem(loc=("--search",), message=f"{search!r} is no regular expression: {error}")]
        ) from None
    return lambda line: pattern.search(line) is not None
