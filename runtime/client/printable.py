"""Text of a server as a terminal may be given it: names and log lines hold what others wrote."""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text without what would move a cursor, recolour or retitle a terminal."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))
