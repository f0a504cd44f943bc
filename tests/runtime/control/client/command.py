"""`paddock` in this process, as a shell would run it: words in, texts and an exit code out."""

import io
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from runtime import cli


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return what stdout holds."""
        return json.loads(self.out)


@dataclass(frozen=True, kw_only=True)
class Paddock:
    """The command, in the environment that the test has set."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str, stdin: str = "") -> Said:
        """Run it to its end."""
        self.monkeypatch.setattr(sys, "argv", ["paddock", *words])
        self.monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = self.capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int), code
        return Said(code=code, out=printed.out, err=printed.err)

    def train(self, *words: str) -> Said:
        """Run `paddock train ...` and expect it to end well."""
        said = self("train", *words)
        assert said.code == 0, said
        return said
