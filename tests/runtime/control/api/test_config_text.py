"""A config that came as JSON, as TOML: the same values at the same paths."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from runtime.config import load_config
from runtime.control.wire.config_text import config_text
from runtime.errors import ConfigError
from tests.runtime.control.api.fakes import seed_config

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
scalars = (
    texts
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=True)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(table=st.dictionaries(texts, values, max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_table_comes_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(config_text(table)) == table


def test_the_seeds_config_loads() -> None:
    loaded = load_config(config_text(seed_config()))

    assert loaded.config.run.name == "reverse-text-hosted"
    assert loaded.config.inference is not None


@pytest.mark.parametrize(
    ("table", "path", "words"),
    [
        ({"a": {"b": None}}, "a.b", "null"),
        ({"a": [1, None]}, "a[1]", "null"),
        ({"a": "x\0"}, "a", "NUL"),
        ({"a\0": 1}, "a\0", "NUL"),
        ({"a": "\ud800"}, "a", "surrogate"),
    ],
)
def test_what_toml_cannot_say_is_named(table: dict[str, JsonValue], path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_text(table)

    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.message


def test_depth_and_number_of_values_are_bounded() -> None:
    deep: dict[str, JsonValue] = {}
    for _ in range(500):
        deep = {"a": deep}

    with pytest.raises(ConfigError, match="levels"):
        config_text(deep)
    with pytest.raises(ConfigError, match="values"):
        config_text({"a": list(range(60_000))})


def test_a_list_too_long_is_one_problem_before_its_values_are_looked_at() -> None:
    nulls: list[JsonValue] = [None] * 60_000

    with pytest.raises(ConfigError) as caught:
        config_text({"a": nulls})

    (problem,) = caught.value.problems
    assert "more than 50,000 values" in problem.message
