"""Log lines for tests, and the plain way to search them: the oracle of the fast one."""

from runtime.control.log_search.text import MAX_LINE_BYTES
from runtime.observe.log_filter import LineFilter, filter_lines, plain


def plain_lines(data: bytes) -> list[str]:
    """Return the lines of a log, one at a time."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [
        plain(line[place : place + MAX_LINE_BYTES].decode(errors="replace"))
        for line in lines
        for place in range(0, max(1, len(line)), MAX_LINE_BYTES)
    ]


def plain_search(data: bytes, wanted: LineFilter, num_lines: int) -> list[str]:
    """Return the last wanted lines."""
    return list(filter_lines(plain_lines(data), wanted))[-num_lines:]
