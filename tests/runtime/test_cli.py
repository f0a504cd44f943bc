"""The CLI's boundary: whatever fails ends as one line and an exit code."""

import json
import sys

import pytest
from typer.testing import CliRunner

from runtime import cli
from runtime.errors import NotFoundError


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (NotFoundError("no run one"), 4, "error: no run one\n"),
        (
            PermissionError(13, "Permission denied", "stacks/Pulumi.one.yaml"),
            1,
            "error: [Errno 13] Permission denied: 'stacks/Pulumi.one.yaml'\n",
        ),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    raised: Exception,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise raised

    monkeypatch.setattr(cli, "app", fails)
    monkeypatch.setattr(sys, "argv", ["paddock", "models", "list"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("flags", [["-o", "json"], ["-ojson"], ["--output=json"]])
def test_every_error_is_json_too_where_json_is_asked_for(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise NotFoundError("no run one")

    monkeypatch.setattr(cli, "app", fails)
    monkeypatch.setattr(sys, "argv", ["paddock", "train", "get", "one", *flags])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    printed = capsys.readouterr()
    detail = [{"loc": [], "msg": "no run one", "fix": "", "code": "not_found"}]
    assert ended.value.code == 4
    assert printed.err == "error: no run one\n"
    assert json.loads(printed.out) == {"error": "not_found", "detail": detail}


def test_a_negative_number_of_lines_is_refused_by_its_option() -> None:
    result = CliRunner().invoke(cli.app, ["logs", "run-1", "-n", "-1"])

    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)  # of the option's parser, before any run


def test_logs_refuses_a_tail_under_zero() -> None:
    asked = CliRunner().invoke(cli.app, ["logs", "run-1", "--tail", "-1"])

    assert asked.exit_code == 2
    assert "--tail" in asked.output
