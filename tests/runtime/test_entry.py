"""The console script."""

import sys
from types import ModuleType

import pytest

from runtime import entry


class Interrupted(ModuleType):
    """A module that meets Ctrl-C while something is imported from it."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


def test_an_interrupt_while_the_cli_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "runtime.cli", Interrupted("runtime.cli"))

    with pytest.raises(SystemExit) as ended:
        entry.main()

    assert ended.value.code == entry.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
