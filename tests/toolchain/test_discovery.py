"""Which engine is used, and the environment in which `pulumi` works as typed."""

import os
import sys
from pathlib import Path

import pytest

from runtime.errors import SetupError
from runtime.toolchain import ENGINE_MARKER, engine_environment, find_engine, find_official_engine


def _make_executables(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    directory = _make_executables(
        tmp_path / "venv" / "paddock-engine", "pulumi", "pulumi-language-python"
    )
    (directory / ENGINE_MARKER).write_text("{}")
    return directory


def test_an_official_pulumi_comes_before_ours(tmp_path: Path, own_dir: Path) -> None:
    official = _make_executables(tmp_path / "official", "pulumi", "pulumi-language-python")

    engine = find_engine(f"{own_dir}:{official}")

    assert engine.official
    assert engine.pulumi == official / "pulumi"
    assert engine.bin_dirs == (official,)


def test_a_linked_pulumi_finds_the_host_beside_its_target(tmp_path: Path) -> None:
    real = _make_executables(tmp_path / "real", "pulumi", "pulumi-language-python")
    linked = tmp_path / "bin"
    linked.mkdir()
    (linked / "pulumi").symlink_to(real / "pulumi")

    engine = find_official_engine(str(linked))

    assert engine is not None
    assert engine.bin_dirs == (linked, real)


def test_a_pulumi_without_a_python_host_is_passed_over(tmp_path: Path, own_dir: Path) -> None:
    bare = _make_executables(tmp_path / "bare", "pulumi")

    engine = find_engine(f"{own_dir}:{bare}")

    assert not engine.official
    assert engine.pulumi == own_dir / "pulumi"


def test_no_engine_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    with pytest.raises(SetupError, match="run `make setup`"):
        find_engine(str(tmp_path))


def test_the_environment_leads_to_our_engine_and_leaves_the_rest(own_dir: Path) -> None:
    base = {"PATH": "/usr/bin:/bin", "PULUMI_IGNORE_AMBIENT_PLUGINS": "true", "EDITOR": "vi"}

    environment = engine_environment(base)

    venv_bin = own_dir.parent / "bin"
    assert environment["PATH"] == f"{own_dir}:/usr/bin:/bin:{venv_bin}"
    assert environment["PULUMI_SKIP_UPDATE_CHECK"] == "true"
    assert environment["EDITOR"] == "vi"
    assert "PULUMI_IGNORE_AMBIENT_PLUGINS" not in environment
    assert base["PATH"] == "/usr/bin:/bin"


def test_the_environment_of_an_environment_is_the_same(own_dir: Path) -> None:
    once = engine_environment({"PATH": os.defpath})

    assert engine_environment(once) == once
