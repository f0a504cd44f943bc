"""A run directory is deleted only when its run is over and captured, and nobody wants it back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.commands.admin.runs import parse_age, parse_size
from runtime.control.manifest import Manifest
from runtime.control.prune import (
    Candidate,
    LocalFolders,
    PruneLimits,
    chosen,
    reason_to_keep,
    remove_run,
)
from runtime.control.values import StoredRun
from runtime.errors import RunStateError, SettingsError
from runtime.states import RunState, Teardown
from tests.runtime.control.reading.run_files import stored_run, write_run

NOW = datetime(2026, 12, 31, tzinfo=UTC)


def ended(tmp_path: Path, run_id: str, days_ago: int) -> StoredRun:
    """Return a run that ended so long ago."""
    run = stored_run(tmp_path, RunState.COMPLETED)
    time = NOW - timedelta(days=days_ago)
    return replace(run, run_id=run_id, ended_at=time, teardown=Teardown.DONE)


def manifest(*, is_complete: bool = True, attempt: int = 1) -> Manifest:
    """Return a manifest."""
    return Manifest(run_id="run-1", attempt=attempt, is_complete=is_complete, captured_at=NOW)


@pytest.mark.parametrize(
    ("changes", "found", "reason"),
    [
        ({}, manifest(), ""),
        ({}, None, "not captured"),
        ({}, manifest(is_complete=False), "not captured"),
        ({"attempt": 2}, manifest(), "attempt 2 is not captured"),
        ({"state": RunState.PAUSED}, manifest(), "PAUSED"),
        ({"state": RunState.RUNNING}, manifest(), "RUNNING"),
        ({"teardown": Teardown.STUCK}, manifest(), "teardown is stuck"),
    ],
)
def test_what_must_stay_says_why(
    tmp_path: Path, changes: dict[str, object], found: Manifest | None, reason: str
) -> None:
    run = replace(ended(tmp_path, "run-1", 1), **changes)  # type: ignore[arg-type]  # fields by name

    kept = reason_to_keep(run, found, [])

    assert reason in kept
    assert bool(kept) == bool(reason)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (PruneLimits(older_than=timedelta(days=20)), ["old"]),
        (PruneLimits(older_than=timedelta(days=200)), []),
        (PruneLimits(max_bytes=250), ["old"]),
        (PruneLimits(max_bytes=150), ["old", "middle"]),
        (PruneLimits(max_bytes=0), ["old", "middle", "young"]),
        (PruneLimits(older_than=timedelta(days=20), max_bytes=150), ["old", "middle"]),
    ],
)
def test_the_oldest_go_and_what_must_stay_takes_space(
    tmp_path: Path, limits: PruneLimits, expected: list[str]
) -> None:
    candidates = [
        Candidate(run=ended(tmp_path, "young", 1), size=50),
        Candidate(run=ended(tmp_path, "middle", 10), size=50),
        Candidate(run=ended(tmp_path, "kept", 99), size=100, keeps="it is not captured"),
        Candidate(run=ended(tmp_path, "old", 30), size=100),
    ]

    gone = chosen(candidates, limits, now=NOW)

    assert [one.run.run_id for one in gone] == expected


def test_a_directory_is_deleted_with_all_in_it(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    (directory.path / "link").symlink_to(outside)
    folders, run = LocalFolders(tmp_path / "runs"), ended(tmp_path, "run-1", 1)
    assert folders.size("run-1") > 1000

    remove_run(run, folders, read_again=lambda run_id: run, read_live=list)

    assert list((tmp_path / "runs").iterdir()) == []
    assert (outside / "file").read_text() == "stays"


def test_a_run_that_is_resumed_meanwhile_gets_its_directory_back(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    run = ended(tmp_path, "run-1", 1)
    resumed = replace(run, version=run.version + 1, state=RunState.QUEUED)

    folders = LocalFolders(tmp_path / "runs")
    with pytest.raises(RunStateError, match="is kept: meanwhile it was changed"):
        remove_run(run, folders, read_again=lambda run_id: resumed, read_live=list)

    assert directory.metrics.exists()


def starting(tmp_path: Path, text: str, state: RunState) -> StoredRun:
    """Return a run that starts with another's checkpoint."""
    run = stored_run(tmp_path, state)
    return replace(run, run_id="run-next", settings={"resumeFrom": text})


@pytest.mark.parametrize("text", ["run-1", "run-1:40"])
@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.RUNNING, RunState.PAUSED])
def test_a_run_that_another_starts_with_is_kept(tmp_path: Path, text: str, state: RunState) -> None:
    live = [starting(tmp_path, text, state)]

    kept = reason_to_keep(ended(tmp_path, "run-1", 1), manifest(), live)

    assert kept == "run-next starts with its checkpoint"


@pytest.mark.parametrize(
    ("text", "state"), [("run-10", RunState.QUEUED), ("run-1", RunState.FAILED)]
)
def test_a_run_that_nobody_starts_with_any_more_may_go(
    tmp_path: Path, text: str, state: RunState
) -> None:
    live = [starting(tmp_path, text, state)]

    assert reason_to_keep(ended(tmp_path, "run-1", 1), manifest(), live) == ""


def test_a_run_that_is_dispatched_meanwhile_finds_its_checkpoint(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    run = ended(tmp_path, "run-1", 1)
    live = [starting(tmp_path, "run-1", RunState.QUEUED)]

    folders = LocalFolders(tmp_path / "runs")
    with pytest.raises(RunStateError, match="run-next starts with its checkpoint"):
        remove_run(run, folders, read_again=lambda run_id: run, read_live=lambda: live)

    assert directory.checkpoints.exists()


def test_a_prune_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    write_run(tmp_path)
    folders, run = LocalFolders(tmp_path / "runs"), ended(tmp_path, "run-1", 1)
    folders.set_aside("run-1")

    assert folders.size("run-1") > 0
    remove_run(run, folders, read_again=lambda run_id: run, read_live=list)

    assert folders.size("run-1") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500Gi", 500 << 30), ("2T", 2 * 10**12), ("1.5MiB", 3 << 19), ("7", 7)],
)
def test_a_size_is_read(text: str, expected: int) -> None:
    assert parse_size(text) == expected


def test_an_age_is_read_and_what_is_none_is_refused() -> None:
    assert (parse_age("12h"), parse_age("8w")) == (timedelta(hours=12), timedelta(weeks=8))
    ages = ["30", "99999999999999w", f"{'9' * 5000}h", "200000w"]
    wrong = [*((parse_age, one) for one in ages), (parse_size, "lots"), (parse_size, "9" * 400)]
    for parse, text in wrong:
        with pytest.raises(SettingsError):
            parse(text)
