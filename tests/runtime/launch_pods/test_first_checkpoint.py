"""first_checkpoint.py: which checkpoint of another run is taken, and how it gets into a new one."""

import os
from pathlib import Path
from typing import Any

import pytest

from runtime.launch import first_checkpoint
from runtime.launch.first_checkpoint import MissingError, bring, choose
from runtime.resume_from import ResumeFrom, parse_resume_from
from tests.runtime.launch_pods.pod_site import TIMEOUT_S, Json, Site, folders

PARTS = ("trainer", "orchestrator")


def wanted(**changes: object) -> dict[str, Any]:
    return {"run": "run-0", "step": None, "max_steps": 10, "parts": PARTS, **changes}


def save(run: Path, step: int, *parts: str) -> None:
    for part in parts:
        folder = run / f"checkpoints/step_{step}" / part
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{step} {part}")


@pytest.mark.parametrize(
    ("text", "run_id", "step"), [("run-0", "run-0", None), ("run-0:40", "run-0", 40)]
)
def test_a_checkpoint_is_named_by_run_and_step(text: str, run_id: str, step: int | None) -> None:
    assert parse_resume_from(text) == ResumeFrom(run_id=run_id, step=step)


@pytest.mark.parametrize("text", ["", "run-0:", "run-0:last", "run-0:-1", "../run", "run-0:1:2"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither RUN nor RUN:STEP"):
        parse_resume_from(text)


@pytest.mark.parametrize(
    ("steps", "changes", "said"),
    [
        ([], {}, "run-0 has no checkpoint"),
        ([2, 4], {"step": 3}, "no checkpoint of step 3; it has those of 2, 4"),
        ([10], {}, "of step 10 and max_steps is 10"),
    ],
)
def test_what_cannot_be_started_with_is_said(
    steps: list[int], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(MissingError, match=said):
        choose(steps, wanted(**changes))


def test_the_last_whole_checkpoint_is_taken(tmp_path: Path) -> None:
    save(tmp_path / "old", 2, *PARTS)
    save(tmp_path / "old", 4, *PARTS)
    save(tmp_path / "old", 6, "trainer")  # a kill tore its save

    step = bring(wanted(), tmp_path / "old", tmp_path / "new")

    assert step == 4
    assert (tmp_path / "new/checkpoints/step_4/orchestrator/state").read_text() == "4 orchestrator"
    assert os.listdir(tmp_path / "new/checkpoints") == ["step_4"]


def test_a_run_that_has_a_checkpoint_keeps_its_own(tmp_path: Path) -> None:
    save(tmp_path / "old", 8, *PARTS)
    save(tmp_path / "new", 2, *PARTS)

    assert bring(wanted(), tmp_path / "old", tmp_path / "new") is None
    assert os.listdir(tmp_path / "new/checkpoints") == ["step_2"]


def test_files_are_copied_where_they_cannot_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "old", 4, *PARTS)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(first_checkpoint.os, "link", refuse)
    bring(wanted(), tmp_path / "old", tmp_path / "new")

    copied = tmp_path / "new/checkpoints/step_4/trainer/state"
    assert copied.read_text() == "4 trainer"
    assert copied.stat().st_nlink == 1


def test_what_an_interrupted_copy_left_is_replaced(tmp_path: Path) -> None:
    save(tmp_path / "old", 4, *PARTS)
    (tmp_path / "new/checkpoints/.step_4.from/trainer").mkdir(parents=True)
    save(tmp_path / "new", 4, "trainer")

    assert bring(wanted(), tmp_path / "old", tmp_path / "new") == 4
    assert sorted(os.listdir(tmp_path / "new/checkpoints/step_4")) == sorted(PARTS)


def test_a_link_in_a_checkpoint_brings_nothing_in(tmp_path: Path) -> None:
    save(tmp_path / "old", 4, *PARTS)
    secret = tmp_path / "secret"
    secret.write_text("canary")
    (tmp_path / "old/checkpoints/step_4/trainer/link").symlink_to(secret)

    bring(wanted(), tmp_path / "old", tmp_path / "new")

    assert (tmp_path / "new/checkpoints/step_4/trainer/link").is_symlink()


def test_a_checkpoint_that_goes_while_it_is_copied_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "old", 4, *PARTS)

    def gone(source: str, *_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", source)

    monkeypatch.setattr(first_checkpoint.os, "link", gone)
    monkeypatch.setattr(first_checkpoint.shutil, "copyfile", gone)

    with pytest.raises(MissingError, match="step_4 of run-0 cannot be copied"):
        bring(wanted(), tmp_path / "old", tmp_path / "new")

    assert os.listdir(tmp_path / "new/checkpoints") == []


def first(tmp_path: Path) -> Json:
    return wanted(run="run-before") | {"from": str(tmp_path / "other")}


def test_a_run_starts_with_the_checkpoint_of_another(tmp_path: Path) -> None:
    changes = {"clean_past": "last", "resume": "last", "first_checkpoint": first(tmp_path)}
    site = Site(tmp_path, **changes, gate=False)
    folders(tmp_path / "other/checkpoints", "step_4/trainer", "step_4/orchestrator")

    process = site.start("prepare", "orchestrator")
    said, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert "starting with step 4 of run-before" in said
    assert "resolved ['--resume-step', '4']" in said


def test_a_run_without_the_checkpoint_it_starts_with_fails_with_the_reason(tmp_path: Path) -> None:
    changes = {"clean_past": "last", "resume": "last", "first_checkpoint": first(tmp_path)}
    site = Site(tmp_path, **changes, gate=False)

    process = site.start("prepare", "orchestrator")
    said, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 2
    assert "run-before has no checkpoint" in site.verdict("orchestrator")["reason"]
    assert "resolved" not in said
