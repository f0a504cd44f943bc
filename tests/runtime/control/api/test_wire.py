"""Texts, facts and dates as they go over the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, TypeAdapter, ValidationError

from runtime.control.readings import CachedModel
from runtime.control.requests import CreateRun
from runtime.control.wire.catalog import ModelList
from runtime.control.wire.config_text import config_text
from runtime.control.wire.model import Text
from runtime.control.wire.run_facts import RunFacts, run_facts
from runtime.control.wire.texts import sound, sound_json, without_markup
from runtime.control.wire.volumes import is_volume_name
from tests.runtime.control.api.fakes import seed_config


@given(text=st.text())
def test_a_sound_text_can_be_sent(text: str) -> None:
    found = sound(text + "\ud800")

    assert found.encode("utf-8")
    assert sound(found) == found


def test_names_of_models_are_no_markup() -> None:
    models = [
        CachedModel(name=f"/models/tiny{end}", cluster="east", gpu_type=None)
        for end in ("[/x]", "[/x]", "")
    ]

    listed = ModelList.of(models, []).models

    assert [(one.name, len(one.clusters)) for one in listed] == [
        ("/models/tiny(/x)", 2),
        ("/models/tiny", 1),
    ]


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("a\u00a0b", True),
        ("\U0001f469\u200d\U0001f4bb", True),
        ("x" * 256, True),
        ("x" * 257, False),
        ("", False),
        *((f"a{char}b", False) for char in "\0\t\n\r\x1b\x7f\x85\u2028\u2029\ud800"),
    ],
)
def test_a_text_of_a_client_is_one_line_of_any_script(text: str, is_taken: bool) -> None:
    try:
        TypeAdapter(Text).validate_python(text)
    except ValidationError:
        assert not is_taken
    else:
        assert is_taken


@given(text=st.text(alphabet="[]/a\\ "))
def test_no_text_is_markup(text: str) -> None:
    found = without_markup(text)

    assert "[" not in found
    assert not found.endswith("\\")


def test_what_json_cannot_say_becomes_null() -> None:
    rows: JsonValue = {"a": [float("nan"), float("-inf"), 1.5], "b": {"c\ud800": "x"}}

    assert sound_json(rows) == {"a": [None, None, 1.5], "b": {"c\ufffd": "x"}}


def test_what_lies_too_deep_to_be_written_becomes_null() -> None:
    deep: JsonValue = 1
    for _ in range(900):
        deep = [deep]

    found = sound_json({"near": [[1]], "far": deep})

    assert isinstance(found, dict)
    assert found["near"] == [[1]]
    assert 50 < json.dumps(found).count("[") < 100
    assert "null" in json.dumps(found)


def test_facts_know_the_hosted_and_the_native_spelling() -> None:
    hosted = run_facts(config_text(seed_config()))
    native = run_facts("[orchestrator]\ngroup_size = 8\n[monitors.wandb]\nproject = 'p'\n")

    assert hosted == RunFacts(
        batch_size=64, group_size=8, seq_len=2048, max_tokens=512, learning_rate=3e-6
    )
    assert native == RunFacts(group_size=8, wandb_project="p")


@pytest.mark.parametrize("text", ["", "not toml", "seq_len = true\n[trainer]\noptim = 3\n"])
def test_a_config_without_facts_has_none(text: str) -> None:
    assert run_facts(text) == RunFacts()


def test_a_request_is_told_apart_without_its_secrets() -> None:
    request = CreateRun(config_text="a", secrets={"K": "v1"})

    assert request.digest == CreateRun(config_text="a", secrets={"K": "v2"}).digest
    assert request.digest != CreateRun(config_text="b", secrets={"K": "v1"}).digest
    assert "v1" not in repr(request)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("a", True), ("vol-1", True), ("1", True), ("", False), ("-a", False), ("a.b", False)],
)
def test_volume_names(name: str, is_one: bool) -> None:
    assert is_volume_name(name) is is_one
