"""From a file or its bytes to a table: one clear error for whatever cannot be read."""

import hashlib
from pathlib import Path
from time import process_time

import pytest

from runtime.config import load_config, read_config_file
from runtime.errors import ConfigError
from runtime.limits import MAX_CONFIG_BYTES
from tests.runtime.config.examples import MINIMAL, refusal


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("a = ", "line 1, column 5"),
        ("[model]\nname = 'x\n", "in [model]"),
        ("max_steps = 1\nmax_steps = 2\n", "line 2"),
        ("[model]\n[model]\n", "[model]"),
        ("x = None\n", '"None"'),
        ("x: 1\n", "YAML"),
        (b"\xef\xbb\xbfmax_steps = 1", "byte order mark"),
        (b"\xff\xfem\x00", "UTF-16"),
        (b"a = 1\nb = '\xe9'\n", "line 2, column 6: the file is not UTF-8"),
        ("a = 1\n\0", "line 2, column 1: a NUL"),
        ("a = " + "[" * 5000, "nested"),
        ("a." * 100 + "a = 1", "nested"),
        ("a = {" + "b = {" * 50 + "}" * 51, "nested"),
        (f"a = {'9' * 5000}", "64 bits"),
        ("a = 0xffffffffffffffffffff", "64 bits"),
        ("#" * MAX_CONFIG_BYTES + "##", "size"),
        ("\n" * 20_000, "lines"),
        ('"\ud800" = 1', "UTF-8"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_what_is_no_toml_is_one_problem_with_its_place(data: str | bytes, wanted: str):
    started = process_time()

    error = refusal(data)

    assert error is not None
    assert len(error.problems) == 1
    assert wanted in str(error)
    assert process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"key_{index} = 1" for index in range(9_000)),
        "\n".join(f"[table_{index}]" for index in range(9_000)),
        "[trainer]\n[orchestrator]\n" + "[[orchestrator.train.source]]\n" * 9_000,
        "[trainer]\n[orchestrator]\n" + "[[orchestrator.train.source]]\n" * 400,
        "[trainer]\n[orchestrator]\n[env_vars]\n" + "".join(f"K{i} = 1\n" for i in range(9_000)),
        '[trainer]\n[orchestrator]\n[inference.vllm]\nx = "' + "[" * 500_000 + '"',
        "'" * 900_000,
        "a" * 900_000,
        "a = '" + "\\" * 900_000 + "'",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_file_made_to_hurt_is_answered_quickly_and_briefly(text: str):
    started = process_time()

    error = refusal(text)

    assert error is not None
    assert len(error.problems) <= 101
    assert process_time() - started < 5  # about 0.3 s on a quiet machine


def test_a_file_is_read_as_it_is(tmp_path: Path):
    file = tmp_path / "rl.toml"
    file.write_text(MINIMAL)

    loaded = read_config_file(file)

    assert loaded.text == MINIMAL
    assert loaded.digest == hashlib.sha256(MINIMAL.encode()).hexdigest()


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path):
    for path, wanted in [
        (tmp_path / "none.toml", "there is no file"),
        (tmp_path, "is a directory"),
        (tmp_path / "a\0b", "cannot read"),
        (tmp_path / ("x" * 300), "cannot read"),
    ]:
        with pytest.raises(ConfigError, match=wanted):
            read_config_file(path)


def test_the_source_is_named_in_the_error():
    with pytest.raises(ConfigError, match=r"^mine\.toml: 2 problems"):
        load_config("", source="mine.toml")
