"""A component's configuration: `@ file.json` plus dotted flags, read once at the entry point."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from runtime.errors import ConfigError, Problem
from runtime.rl.views import JsonTable, View

ViewT = TypeVar("ViewT", bound=View)


def read_config(argv: Sequence[str], view: type[ViewT]) -> ViewT:
    """Read `@ file.json --dotted.flag value ... --table @ file.json` into a view.

    Raises ConfigError when the file is missing, is no JSON, or a field is wrong.
    """
    path, flags = _split_argv(argv)
    table = _read(path)
    for key, words in flags:
        if words[:1] == ["@"]:
            for name, value in _read(Path("".join(words[1:2]))).items():
                _set(table, f"{key}.{name}", value)
        else:
            _set(table, key, _value(words))
    try:
        return view.model_validate(table)
    except ValidationError as error:
        problems = [Problem(loc=item["loc"], message=item["msg"]) for item in error.errors()]
        raise ConfigError(problems, source=str(path)) from error


def _read(path: Path) -> JsonTable:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise _error(f"cannot read {path}: {error.strerror}", str(path)) from error
    except ValueError as error:
        raise _error(f"{path} is no JSON: {error}", str(path)) from error


def _split_argv(argv: Sequence[str]) -> tuple[Path, list[tuple[str, list[str]]]]:
    words = list(argv)
    if words[:1] == ["@"]:
        words = ["@" + "".join(words[1:2]), *words[2:]]
    if not words or not words[0].startswith("@") or words[0] == "@":
        raise _error("no configuration file: start with `@ <file.json>`", "command line")
    path = Path(words[0][1:])
    flags: list[tuple[str, list[str]]] = []
    for word in words[1:]:
        if word.startswith("--"):
            flags.append((word[2:], []))
        elif flags:
            flags[-1][1].append(word)
        else:
            raise _error(f"unexpected argument {word!r}: flags begin with --", "command line")
    return path, flags


def _value(words: list[str]) -> object:
    parsed = [_parse(word) for word in words]
    if not parsed:
        return True
    return parsed[0] if len(parsed) == 1 else parsed


def _parse(word: str) -> object:
    try:
        return json.loads(word)
    except ValueError:
        return word


def _set(table: JsonTable, dotted: str, value: object) -> None:
    *parents, last = dotted.replace("-", "_").split(".")
    for parent in parents:
        if not isinstance(table.get(parent), dict):
            table[parent] = {}
        table = table[parent]
    table[last] = value


def _error(message: str, source: str) -> ConfigError:
    return ConfigError([Problem(message=message)], source=source)
