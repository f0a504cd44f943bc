"""`paddock env`: what a shell must set, and unset, for plain `pulumi` to work."""

from pathlib import Path

import pytest

from runtime.commands.stack import env

HIDES_PLUGINS = "PULUMI_IGNORE_AMBIENT_PLUGINS"


@pytest.fixture
def _engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pulumi", "pulumi-language-python"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.delenv(HIDES_PLUGINS, raising=False)


@pytest.mark.usefixtures("_engine")
def test_a_variable_that_hides_plugins_is_unset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env()
    assert "unset" not in capsys.readouterr().out

    monkeypatch.setenv(HIDES_PLUGINS, "true")
    env()

    assert f"unset {HIDES_PLUGINS}\n" in capsys.readouterr().out
