"""Pinned Go modules: what names a build, which Go will do, and one builder at a time."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.errors import SetupError
from toolchain import go_build
from toolchain.go_build import GoModule, build_commands, built_folder, check_go, parse_go_version

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then
  echo '{"GOVERSION": "go1.26.8", "GOTOOLCHAIN": "local"}'
  exit 0
fi
echo built >> "$LOG"
while [ "$1" != -o ]; do shift; done
touch "$2one" "$2tools"
"""


@pytest.fixture
def module(tmp_path: Path) -> GoModule:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.org/folder/tools\n\ngo 1.26\n")
    (folder / "go.sum").touch()
    (folder / "tools.go").write_text("package tools\n")
    return GoModule(
        topic="tools",
        what="the tools",
        folder=folder,
        version="v1",
        packages=("example.org/cmd/one", "."),
        num_packages=2,
        duration="no time",
        without_go="install the tools",
    )


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose `go` writes a line for each build."""
    go_command = tmp_path / "bin" / "go"
    go_command.parent.mkdir()
    go_command.write_text(FAKE_GO)
    go_command.chmod(0o755)
    return {
        "PATH": f"{go_command.parent}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "builds"),
    }


@pytest.mark.parametrize(
    ("found", "go_toolchain"),
    [("go1.26.8", "local"), ("go1.26", "local"), ("go1.27rc1", "local"), ("go1.24.1", "auto")],
)
def test_a_go_that_can_build_or_fetch_is_taken(
    module: GoModule, found: str, go_toolchain: str
) -> None:
    check_go(module=module, found=found, go_toolchain=go_toolchain)


@pytest.mark.parametrize(("found", "go_toolchain"), [("go1.25.9", "local"), ("go1.20", "auto")])
def test_a_go_that_cannot_is_refused_with_the_fix(
    module: GoModule, found: str, go_toolchain: str
) -> None:
    with pytest.raises(SetupError, match=r"tools needs Go 1\.26 or newer.*install a newer Go"):
        check_go(module=module, found=found, go_toolchain=go_toolchain)


def test_a_go_version_is_its_numbers() -> None:
    assert parse_go_version("go1.26.8") == (1, 26, 8)


def test_commands_have_the_names_that_go_gives_them(module: GoModule) -> None:
    assert module.commands == ("one", "tools")


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "tools.go"])
def test_each_file_of_a_module_names_the_build(module: GoModule, name: str) -> None:
    before = module.digest

    with (module.folder / name).open("a") as file:
        file.write("\n// changed\n")

    assert module.digest != before


def test_linker_variables_name_the_build(module: GoModule) -> None:
    assert replace(module, variables={"a.version": "1"}).digest != module.digest


def test_a_built_module_is_not_built_again(
    module: GoModule, tmp_path: Path, environment: dict[str, str]
) -> None:
    for _ in range(2):
        folder = build_commands(module, cache_dir=tmp_path, environment=environment)

    assert folder == built_folder(module, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["one", "tools"]
    assert (tmp_path / "builds").read_text() == "built\n"


def test_two_builders_build_once(
    module: GoModule, tmp_path: Path, environment: dict[str, str]
) -> None:
    def build() -> None:
        build_commands(module, cache_dir=tmp_path, environment=environment)

    builders = [threading.Thread(target=build) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()

    assert (tmp_path / "builds").read_text() == "built\n"


def test_what_a_killed_builder_left_goes_away(
    module: GoModule, tmp_path: Path, environment: dict[str, str]
) -> None:
    target = built_folder(module, tmp_path)
    leftover = target.with_name(f"{target.name}.partial-1")
    leftover.mkdir(parents=True)

    build_commands(module, cache_dir=tmp_path, environment=environment)

    assert not leftover.exists()


def test_a_build_without_go_says_what_else_helps(
    module: GoModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_build, "GO_DIRS", ())

    with pytest.raises(SetupError, match=r"no Go to build the tools with: install the tools"):
        build_commands(module, cache_dir=tmp_path, environment={"PATH": str(tmp_path)})
