"""Random edits of valid configs: never a traceback, and the message names what was edited."""

import copy
import json
import random
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.config import load_config
from runtime.errors import ConfigError
from tests.runtime.config.examples import DATA, MINIMAL, rows

Table = dict[str, Any]
Path = tuple[str | int, ...]

VALID = [
    tomllib.loads(text)
    for text in [
        MINIMAL,
        *(
            (DATA / row["file"]).read_text()
            for row in rows("configs/index.jsonl")
            if "clean" not in row["expect"]
        ),
        *(
            (DATA / "corpus" / row["file"]).read_text()
            for row in rows("corpus/index.jsonl")
            if row["valid"] and row["file"].startswith("v") and "29" not in row["file"]
        ),
    ]
]
ODD_VALUES = [-1, 0, 10**6, 2.5, "", "none", "None", "x y", True, [], [1], {}, {"a": 1}, 1e308]
ODD_KEYS = [
    "",
    "id",
    "type",
    "name",
    "lr",
    "env",
    "source",
    "harness",
    "max_tokens",
    "a.b",
    "\u00e9",
]


def to_toml(table: Table) -> str:
    """Return a table as TOML, every nested table inline."""
    return "\n".join(f"{_text(key)} = {_value(value)}" for key, value in table.items())


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else repr(value)


def paths(node: object, path: Path = ()) -> Iterator[Path]:
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from paths(value, (*path, key))


def node_at(table: Table, path: Path) -> Table:
    """Return the table at a path; a list is indexed in the same way."""
    node: Any = table
    for part in path:
        node = node[part]
    return node


def edited(original: Table, random_: random.Random) -> tuple[Table, Path]:
    """Return a table with one edit, and the path that was edited."""
    table = copy.deepcopy(original)
    named = [path for path in paths(table) if isinstance(path[-1], str) and path[-1]]
    path = random_.choice(named)
    parent, key = node_at(table, path[:-1]), path[-1]
    kind = random_.choice(["drop", "typo", "retype", "range", "misplace", "odd key"])
    if kind == "drop":
        del parent[key]
        return table, path
    if kind == "typo":
        position = random_.randrange(len(key))
        wrong = key[:position] + random_.choice("xqz_") + key[position + 1 :]
        parent[wrong] = parent.pop(key)
        return table, (*path[:-1], wrong)
    if kind == "misplace":
        tables = [other for other in paths(table) if isinstance(node_at(table, other), dict)]
        outside = [other for other in tables if other[: len(path)] != path]
        target = random_.choice(outside) if outside else ()
        value = parent.pop(key)
        node_at(table, target)[key] = value
        return table, (*target, key)
    if kind == "odd key":
        wrong = random_.choice(ODD_KEYS)
        parent[wrong] = random_.choice(ODD_VALUES)
        return table, (*path[:-1], wrong)
    value = parent[key]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    parent[key] = -value if kind == "range" and is_number else random_.choice(ODD_VALUES)
    return table, path


def is_named(path: Path, error: ConfigError) -> bool:
    """Tell whether a refusal names the edited key, its table, or something inside it."""
    said = str(error)
    keys = [part for part in path if isinstance(part, str)]
    if any(problem.loc[: len(path)] == path for problem in error.problems):
        return True
    return keys[-1] in said or (len(keys) > 1 and keys[-2] in said)


@settings(
    max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(seed=st.integers(0, 2**32), num_edits=st.integers(1, 4))
def test_edits_are_accepted_or_refused_but_never_crash(seed: int, num_edits: int):
    random_ = random.Random(seed)
    table = random_.choice(VALID)
    for _ in range(num_edits):
        table, _ = edited(table, random_)

    with suppress(ConfigError):
        load_config(to_toml(table), allow_unknown_fields=seed % 2 == 0)


def test_a_refusal_names_the_edited_path():
    random_ = random.Random(7)
    refused, unnamed = 0, []
    for _ in range(400):
        table, path = edited(random_.choice(VALID), random_)
        try:
            load_config(to_toml(table))
        except ConfigError as error:
            refused += 1
            if not is_named(path, error):
                unnamed.append((path, str(error)))

    assert refused > 100
    assert len(unnamed) <= refused * 0.05, unnamed


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=300) | st.text(max_size=300))
def test_any_bytes_are_answered_with_a_config_error(data: bytes | str):
    with suppress(ConfigError):
        load_config(data)


def test_the_unedited_tables_are_valid():
    for table in VALID:
        load_config(to_toml(table))
