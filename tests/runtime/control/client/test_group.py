"""`paddock train`: a file and commands side by side, completion, and a quick start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from runtime.cli import app
from runtime.commands.remote.train import train_app
from tests.runtime.control.client.command import Paddock

ROOT = Path(__file__).parents[4]
COMMANDS = [
    "list",
    "get",
    "logs",
    "stop",
    "pause",
    "resume",
    "restart",
    "delete",
    "progress",
    "metrics",
    "rollouts",
    "distributions",
    "checkpoints",
    "usage",
    "models",
    "gpus",
    "components",
]


def test_all_commands_of_the_hosted_service_are_there() -> None:
    names = {command.name for command in train_app.registered_commands}

    assert names == {*COMMANDS, "run", "ls"}


def test_the_document_has_every_command() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "client.md").read_text(), re.MULTILINE)

    assert {*rows} - {"FILE"} == {*COMMANDS}


def test_help_names_the_commands_and_no_words_are_help(paddock: Paddock) -> None:
    asked = paddock("train", "--help")
    nothing = paddock("train")

    assert asked.code == 0
    assert all(name in asked.out for name in COMMANDS)
    assert "FILE.toml --help" in asked.out  # where the options of a dispatch are
    assert nothing.code == 2


def test_resume_promises_no_more_than_the_server_does(paddock: Paddock) -> None:
    said = " ".join(paddock("train", "resume", "--help").out.split())

    assert "of a PAUSED run" in said
    assert "or over" not in said
    assert "--resume-from RUN" in said


def test_options_may_stand_before_the_file(paddock: Paddock) -> None:
    before = paddock("train", "--image-tag", "v1", "none.toml")
    named = paddock("train", "run", "none.toml")
    as_path = paddock("train", "./list")
    unknown = paddock("train", "none.toml", "--no-such-flag")

    assert "there is no file none.toml" in before.err
    assert before.err == named.err
    assert "there is no file list" in as_path.err
    assert unknown.code == 2


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("paddock train lo", ["logs"]),
        ("paddock train rl.toml --gpu", ["--gpu-type"]),
        ("paddock train logs run --lev", ["--level"]),
        ("paddock volumes ex", ["expand"]),
    ],
)
def test_the_shell_completes(
    typed: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    words = typed.split()
    monkeypatch.setenv("_PADDOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))

    with pytest.raises(SystemExit):
        get_command(app).main(args=[], prog_name="paddock")

    assert capsys.readouterr().out.split() == offered


def test_the_cli_starts_without_the_client_and_the_client_without_the_server() -> None:
    start = "import sys, runtime.cli; print('httpx' in sys.modules)"
    client = (
        "import sys, runtime.client.runs, runtime.client.dispatches, runtime.client.logs\n"
        "import runtime.client.catalog, runtime.client.kept_dispatches\n"
        "print([name for name in sys.modules if name.startswith(('runtime.control', 'torch', "
        "'sqlalchemy', 'fastapi'))])"
    )

    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()
        for code in (start, client)
    ]

    assert printed == ["False", "[]"]
