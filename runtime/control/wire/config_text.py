"""A config that came as a JSON object, written as the TOML that the rest of paddock reads.

`prime` parses the user's file and sends the table, so comments and order of the text are gone; the
values are the same. Key by key the paths stay, so that a problem's path is one of the user's file.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import count

from pydantic import JsonValue

from runtime.config.toml_text import MAX_DEPTH
from runtime.errors import ConfigError, Problem

Loc = tuple[str | int, ...]

SOURCE = "config"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')
_MAX_VALUES = 50_000


def config_text(config: Mapping[str, JsonValue]) -> str:
    """Return the TOML of a table. Raises ConfigError for what TOML cannot say: null, NUL, depth."""
    problems = list(_problems(config))
    if problems:
        raise ConfigError(problems, source=SOURCE)
    return "\n".join(_table(config, header="")) + "\n"


def _problems(config: Mapping[str, JsonValue]) -> Iterator[Problem]:
    stack: list[tuple[Loc, JsonValue]] = [((), dict(config))]
    for number in count():
        if not stack:
            return
        path, value = stack.pop()
        message = _unwritable(path, value)
        num_inside = len(value) if isinstance(value, dict | list) else 0
        if max(number, len(stack) + num_inside) > _MAX_VALUES:  # before each is looked at
            yield Problem(message=f"the config has more than {_MAX_VALUES:,} values", code="size")
            return
        if message:
            yield Problem(loc=path[:MAX_DEPTH], message=message, code="toml")
        elif isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))


def _unwritable(path: Loc, value: JsonValue) -> str:
    """Return why TOML cannot hold a value or its key, "" where it can."""
    if len(path) > MAX_DEPTH:
        return f"values nested deeper than {MAX_DEPTH} levels"
    if value is None:
        return 'null is no TOML value: leave the key out, or write "None"'
    texts = [part for part in (*path[-1:], value) if isinstance(part, str)]
    if any("\0" in text for text in texts):
        return "holds a NUL character"
    if any("\ud800" <= char <= "\udfff" for text in texts for char in text):
        return "is no UTF-8 text: it holds half of a surrogate pair"
    return ""


def _table(table: Mapping[str, JsonValue], *, header: str) -> Iterator[str]:
    """Yield the lines of a table: its plain values first, since a header ends them."""
    inner = {key: value for key, value in table.items() if _has_header(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        path = f"{header}.{_key(key)}" if header else _key(key)
        if isinstance(value, dict):
            yield f"[{path}]"
            yield from _table(value, header=path)
        elif isinstance(value, list):
            for entry in value:
                assert isinstance(entry, dict), "a list of tables holds tables"
                yield f"[[{path}]]"
                yield from _table(entry, header=path)


def _has_header(value: JsonValue) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, dict) for entry in value)
    return isinstance(value, dict)


def _value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04X}", text)
    return f'"{escaped}"'
