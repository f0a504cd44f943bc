"""The rules for secrets: names, sizes, reserved names; values never appear in a message."""

from pathlib import Path

import pytest

from runtime.errors import SettingsError
from runtime.secret_rules import read_env_file, read_env_flags, secret_problems

CANARY = "canary-5f1d"


@pytest.mark.parametrize(
    "name",
    [
        "1ABC",
        "A-B",
        "A B",
        "",
        "A" * 129,
        "PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "PULUMI_CONFIG_PASSPHRASE",
        "PRIME_RL_REF",
        "PRIME_RL_REPO",
        "JOB_COMPLETION_INDEX",
        "PADDOCK_HOME",
    ],
)
def test_bad_and_reserved_names_are_refused(name: str) -> None:
    (problem,) = secret_problems({name: CANARY})

    assert problem.code == "secret"
    assert CANARY not in str(problem)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_x", "a1", "A" * 128])
def test_environment_variable_names_are_accepted(name: str) -> None:
    assert secret_problems({name: "value"}) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({f"K{i}": "v" for i in range(33)}, "33 entries"),
        ({"A": "x" * (32 * 1024 + 1)}, "32769 bytes"),
        ({f"K{i}": "x" * (32 * 1024) for i in range(9)}, "294912 bytes in total"),
        ({"A": "a\0b"}, "NUL"),
        ({"A": "half \ud800"}, "A: value is not UTF-8 text"),
        ({"A": "\udcff"}, "A: value is not UTF-8 text"),
    ],
)
def test_limits_are_refused_with_their_figure(values: dict[str, str], said: str) -> None:
    assert any(said in problem.message for problem in secret_problems(values))


def test_limits_themselves_are_accepted() -> None:
    values = {f"K{i}": "x" * 8192 for i in range(32)}

    assert secret_problems(values) == []


def test_an_env_file_keeps_values_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# note\n\nA=1=2\nexport B='two words'\nC=$(HOME) # not a comment\n")
    path.chmod(0o600)

    assert read_env_file(path) == {"A": "1=2", "B": "two words", "C": "$(HOME) # not a comment"}


def test_an_env_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(f"A={CANARY}\n")
    path.chmod(0o640)

    with pytest.raises(SettingsError, match="chmod 600") as caught:
        read_env_file(path)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("line", [CANARY, f"{CANARY}+/k=", f"{CANARY * 40}=", f"export {CANARY} ="])
def test_a_line_that_is_no_pair_is_named_by_number_only(tmp_path: Path, line: str) -> None:
    path = tmp_path / "env"
    path.write_text(f"A=1\n{line}\n")
    path.chmod(0o600)

    with pytest.raises(SettingsError, match="line 2") as caught:
        read_env_file(path)
    assert CANARY not in str(caught.value)


def test_a_flag_without_a_value_reads_the_shell() -> None:
    assert read_env_flags(["A", "B=x=y"], {"A": "1"}) == {"A": "1", "B": "x=y"}
    with pytest.raises(SettingsError, match="not set in this shell"):
        read_env_flags(["MISSING"], {})
