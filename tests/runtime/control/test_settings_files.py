"""Settings files of stacks as they are found on disk, written by people too."""

from pathlib import Path

import pytest

from runtime.control.stacks import Project, read_settings, write_settings
from runtime.errors import NotFoundError, StackError


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "stacks").mkdir()
    return Project(path=tmp_path, environment={})


@pytest.mark.parametrize("text", ["", "config:\n", "encryptionsalt: v1\nconfig:\n", "- a list\n"])
def test_a_file_without_settings_has_none_and_takes_some(project: Project, text: str) -> None:
    project.settings_file("one").write_text(text)

    before = read_settings(project, "one")
    write_settings(project, "one", {"kind": "run", "attempt": 2})

    assert before == {}
    assert read_settings(project, "one") == {"kind": "run", "attempt": 2}


@pytest.mark.parametrize("data", [b"config: [", b"\xff\xfe"])
def test_a_file_that_is_no_yaml_is_named(project: Project, data: bytes) -> None:
    project.settings_file("one").write_bytes(data)

    with pytest.raises(StackError, match=r"Pulumi\.one\.yaml is not YAML"):
        read_settings(project, "one")


def test_a_stack_without_a_file_is_not_found(project: Project) -> None:
    with pytest.raises(NotFoundError, match="no stack one"):
        read_settings(project, "one")
