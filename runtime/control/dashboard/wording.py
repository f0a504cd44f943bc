"""Times, spans and log lines as people read them. Pure."""

import json
import re
from datetime import UTC, datetime

from runtime.control.wire.texts import sound

_ANSI = re.compile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_MAX_LINE_CHARS = 2000


def clock(time: datetime | None) -> str:
    """Return a time to the second, in UTC; empty for none."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if time is not None else ""


def span(start: datetime | None, end: datetime | None) -> str:
    """Return the time between two times in its two largest units; empty where one is not known."""
    if start is None or end is None:
        return ""
    seconds = max(0, int((end - start).total_seconds()))
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, length)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def log_lines(text: str) -> list[str]:
    """Return log lines without colours and control characters, a JSON line as its message."""
    return [_log_line(line) for line in sound(text).splitlines()]


def _log_line(line: str) -> str:
    plain = _CONTROL.sub("", _ANSI.sub("", _from_json(line)))
    return plain if len(plain) <= _MAX_LINE_CHARS else f"{plain[:_MAX_LINE_CHARS]} ..."


def _from_json(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(entry, dict) or not isinstance(entry.get("message"), str):
        return line
    head = [str(entry[key]) for key in ("timestamp", "level") if entry.get(key)]
    return sound(" ".join([*head, entry["message"]]))
