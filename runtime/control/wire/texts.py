"""Texts and values that came from a run or a user, made fit for JSON and for a terminal.

Rollouts and log lines hold whatever a model or a library wrote: halves of surrogate pairs, NaN.
"""

from math import isfinite

from pydantic import JsonValue

_MAX_DEPTH = 64


def without_markup(text: str) -> str:
    """Return a text whose square brackets are parentheses: `prime` reads them as markup."""
    return sound(text).replace("[", "(").replace("]", ")").rstrip("\\")


def sound(text: str) -> str:
    """Return a text that is UTF-8, with U+FFFD for what is not."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sound_json(value: JsonValue, *, depth: int = _MAX_DEPTH) -> JsonValue:
    """Return a JSON value whose texts are UTF-8, and whose NaN and infinities are null.

    So is what lies deeper than `depth`, since nobody could write it as JSON again.
    """
    if depth == 0 and isinstance(value, dict | list | tuple):
        return None
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {sound(str(key)): sound_json(item, depth=depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_json(item, depth=depth - 1) for item in value]
    return value
