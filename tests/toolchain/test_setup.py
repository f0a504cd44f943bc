"""What `make setup` decides and writes, without building or fetching anything."""

import stat
import sys
from pathlib import Path

import pytest

from runtime.errors import SetupError
from runtime.toolchain import Engine
from toolchain import engine_build, go_build, installation, progress, setup
from toolchain.engine_bin import install_engine, render_executable
from toolchain.engine_build import build_engine
from toolchain.installation import Layout

ENGINE_MODULE = Path(engine_build.__file__).parent / "engine"


def test_another_platform_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    assert setup.main([]) == 1
    assert "supports Linux only, and this is darwin" in capsys.readouterr().err


def test_a_machine_without_go_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_build, "GO_DIRS", ())

    with pytest.raises(SetupError, match="install Pulumi"):
        build_engine(
            module_dir=ENGINE_MODULE, cache_dir=tmp_path, environment={"PATH": str(tmp_path)}
        )


def test_a_cached_engine_needs_no_go(tmp_path: Path) -> None:
    folder = go_build.built_folder(engine_build.engine_module(ENGINE_MODULE), tmp_path)
    folder.mkdir(parents=True)
    (folder / "pulumi").touch()

    built = build_engine(module_dir=ENGINE_MODULE, cache_dir=tmp_path, environment={"PATH": ""})

    assert built == folder / "pulumi"


def test_an_official_pulumi_is_used_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    official = Engine(pulumi=tmp_path / "pulumi", bin_dirs=(tmp_path,), official=True)
    layout = Layout(
        checkout=installation.find_layout().checkout, cache_dir=tmp_path / "cache", environment={}
    )
    monkeypatch.setattr(Layout, "venv", tmp_path / "venv")
    layout.venv.mkdir()
    monkeypatch.setattr(installation, "find_official_engine", lambda path: official)
    monkeypatch.setattr(installation, "_install_python", lambda layout: None)
    monkeypatch.setattr(installation, "build_engine", lambda **options: pytest.fail("built"))

    assert installation._install(layout)

    assert f"using your Pulumi: {official.pulumi}" in capsys.readouterr().out
    assert not (layout.venv / "paddock-engine").exists()


def test_the_engine_folder_is_complete_and_may_be_made_again(tmp_path: Path) -> None:
    engine = tmp_path / "cache" / "pulumi"
    engine.parent.mkdir()
    engine.write_text("the engine")
    bin_dir = tmp_path / "venv" / "paddock-engine"

    for _ in range(2):
        install_engine(engine=engine, version="v1", bin_dir=bin_dir, python=Path("/venv/python"))

    assert (bin_dir / "pulumi").samefile(engine)
    assert sorted(path.name for path in bin_dir.iterdir()) == [
        "paddock-engine.json",
        "pulumi",
        "pulumi-analyzer-policy-python",
        "pulumi-language-python",
        "pulumi-resource-pulumi-python",
    ]
    assert (bin_dir / "pulumi-language-python").stat().st_mode & stat.S_IXUSR


def test_an_executable_becomes_the_interpreter() -> None:
    script = render_executable(python=Path("/a b/python"), module=("host", "pulumi.dynamic"))

    assert script == "#!/bin/sh\nexec '/a b/python' -u -P -m host pulumi.dynamic \"$@\"\n"


def test_a_failed_step_shows_its_last_lines() -> None:
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(4)"]

    with pytest.raises(SetupError, match=r"fetching failed with exit code 4:\nthe reason"):
        progress.run_with_progress(command, topic="test", what="fetching", environment={})


def test_a_long_step_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.05)
    command = [sys.executable, "-uc", "print('one'); import time; time.sleep(0.3)"]

    progress.run_with_progress(
        command,
        topic="test",
        what="building",
        environment={},
        describe=lambda log: f"{len(log.splitlines())} line",
    )

    assert "[test] building: 0 s, 1 line" in capsys.readouterr().out


def test_the_digest_follows_the_lock(tmp_path: Path) -> None:
    checkout = installation.find_layout().checkout
    (tmp_path / "toolchain" / "engine").mkdir(parents=True)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((checkout / name).read_bytes())
    (tmp_path / "toolchain" / "uv.lock.txt").touch()
    for name in ("go.mod", "go.sum"):
        (tmp_path / "toolchain" / "engine" / name).touch()
    before = installation._digest(tmp_path)

    with (tmp_path / "requirements.lock").open("a") as lock:
        lock.write("\n# another lock\n")

    assert installation._digest(tmp_path) != before


def test_the_lock_names_no_host() -> None:
    text = (installation.find_layout().checkout / "requirements.lock").read_text()

    assert "://" not in text
    assert "--index-url" not in text
