"""Files of any size and of any time are read within bounds: they are a user's own."""

import json
import logging
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.control.artifact_store import DirectoryStore
from runtime.control.captured_source import CapturedSource
from runtime.control.cluster_source import ClusterSource
from runtime.control.manifest import CapturedCheckpoint, Manifest
from runtime.control.requests import StepRange
from runtime.control.run_reads import run_metrics, run_rollouts, run_tokens
from runtime.control.run_reads.run_checkpoints import read_checkpoints
from runtime.control.run_reads.run_metrics import read_metrics, read_progress
from runtime.control.run_reads.run_rollouts import read_rows, read_samples
from runtime.control.run_reads.run_tokens import RolloutTokens
from runtime.control.run_source import Entry, FolderSource
from runtime.control.run_sources import RunFolder
from runtime.observe.kubernetes.run_files import RunFiles
from tests.runtime.control.reading.run_files import (
    NOON,
    RUN_ID,
    run_directory,
    stored_run,
    write_metrics,
    write_run,
)

EPOCH = datetime.fromtimestamp(0, UTC)


class CountedSource(FolderSource):
    """Notes how many bytes were read, and of which files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.num_read: dict[str, int] = {}

    def read(self, path: str, offset: int, size: int) -> bytes:
        data = super().read(path, offset, size)
        self.num_read[path] = self.num_read.get(path, 0) + len(data)
        return data


class TimedSource(FolderSource):
    """Says one time of every file."""

    def __init__(self, path: Path, mtime: float) -> None:
        super().__init__(path)
        self.mtime = mtime

    def entries(self, folder: str) -> list[Entry]:
        return [replace(one, mtime=self.mtime) for one in super().entries(folder)]


def write_rows(path: Path, rows: list[bytes], end: bytes = b"\n") -> CountedSource:
    """Write the rollouts of step 1."""
    folder = run_directory(path).rollouts / "step_1" / "train" / "all"
    folder.mkdir(parents=True)
    (folder / "traces.jsonl").write_bytes(b"\n".join(rows) + end)
    return CountedSource(run_directory(path).path)


def row(number: int, size: int = 0) -> bytes:
    return json.dumps({"id": number, "num_output_tokens": 1, "text": "x" * size}).encode()


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("where", [0, 1, 3])
def test_a_line_that_memory_should_not_hold_is_counted_and_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: int,
    end: bytes,
) -> None:
    monkeypatch.setattr(run_rollouts, "_MAX_LINE_BYTES", 200)
    monkeypatch.setattr(run_rollouts, "_READ", 64)
    caplog.set_level(logging.INFO)
    rows = [row(0), row(1), row(2, size=100)]
    source = write_rows(tmp_path, [*rows[:where], row(9, size=5000), *rows[where:]], end)

    page = read_samples(source, 1, offset=0, limit=10)

    assert [one["id"] for one in page.samples] == [0, 1, 2]
    assert page.total == 4
    assert [one["id"] for one in read_rows(source, 1)] == [0, 1, 2]
    told = [record.getMessage() for record in caplog.records]
    assert ["1 lines of over" in words for words in told] == [True, True]  # once a reading


def test_lines_are_whole_wherever_a_read_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(number, size=number % 7) for number in range(50)]
    source = write_rows(tmp_path, [*rows[:20], b"", b"", *rows[20:]])

    for size in (1, 2, 17, 64, 4096):
        monkeypatch.setattr(run_rollouts, "_READ", size)
        assert [one["id"] for one in read_rows(source, 1)] == list(range(50))


def test_of_an_endless_file_a_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rollouts, "_READ", 512)
    monkeypatch.setattr(run_rollouts, "MAX_FILE_BYTES", 2048)
    monkeypatch.setattr(run_tokens, "MAX_FILE_BYTES", 2048)
    source = write_rows(tmp_path, [row(number) for number in range(1000)])

    page = read_samples(source, 1, offset=0, limit=5)

    assert len(page.samples) == 5
    assert list(source.num_read.values()) == [2048]
    # the tokens of a part are not those of the run
    assert RolloutTokens().count(stored_run(tmp_path), source, is_live=False).output_tokens is None


def test_metrics_in_any_number_of_files_are_read_within_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_metrics, "_MAX_BYTES", 8000)
    rows: list[dict[str, object]] = [{"step": n, "time": NOON + n} for n in range(500)]
    for number in range(40):
        write_metrics(run_directory(tmp_path), f"metrics-{number:02}.jsonl", rows)
    write_metrics(run_directory(tmp_path), "metrics.jsonl", rows)
    source = CountedSource(run_directory(tmp_path).path)

    found = read_metrics(source, StepRange())

    assert sum(source.num_read.values()) <= 8000
    assert "metrics.jsonl" in source.num_read
    assert [size > 0 for size in source.num_read.values()] == [True] * 16  # none takes it all
    assert found[-1]["step"] == 499


def test_what_a_small_file_of_metrics_leaves_is_the_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_metrics, "_MAX_BYTES", 8000)
    write_metrics(run_directory(tmp_path), "metrics-trainer.jsonl", [{"step": 1, "loss": 1.0}])
    write_metrics(run_directory(tmp_path), "metrics.jsonl", [{"step": n} for n in range(2000)])
    source = CountedSource(run_directory(tmp_path).path)

    assert {"step": 1, "loss": 1.0} in read_metrics(source, StepRange())
    assert 7900 < sum(source.num_read.values()) <= 8000


@pytest.mark.parametrize("mtime", [1e12, -1e12, 1e300, math.nan, math.inf])
def test_a_time_that_no_calendar_holds_spoils_nothing(tmp_path: Path, mtime: float) -> None:
    source = TimedSource(write_run(tmp_path).path, mtime)
    (run_directory(tmp_path).checkpoints / ".step_6.7.tmp").mkdir()
    folder = RunFolder(source=source, is_live=True, is_local=True)

    progress, found = read_progress(source), read_checkpoints(RUN_ID, folder, now=NOON)

    assert (progress.latest_step, progress.updated_at) == (3, None)
    assert [(one.step, one.created_at) for one in found] == [(2, EPOCH), (4, EPOCH), (6, EPOCH)]


def test_a_captured_checkpoint_of_such_a_time_is_listed(tmp_path: Path) -> None:
    one = CapturedCheckpoint(step=2, size=1, mtime=1e12, is_kept=False, url="file:///x")
    manifest = Manifest(run_id=RUN_ID, attempt=1, captured_at=EPOCH, checkpoints=(one,))
    source = CapturedSource(DirectoryStore(tmp_path), manifest)
    folder = RunFolder(source=source, is_live=False, is_local=True)

    (found,) = read_checkpoints(RUN_ID, folder, now=NOON)

    assert (found.step, found.created_at) == (2, EPOCH)


@pytest.mark.parametrize("mtime", [math.nan, -math.inf, 10**400, "soon", None])
def test_a_time_of_a_cluster_that_is_none_is_the_epoch(mtime: object) -> None:
    class OddFiles:
        def entries(self, run_id: str, folder: str) -> list[dict[str, Any]]:
            return [{"name": "a", "size": 1, "mtime": mtime, "is_dir": False}]

    source = ClusterSource(cast("RunFiles", OddFiles()), RUN_ID)  # as much as is asked

    assert [one.mtime for one in source.entries("")] == [0.0]
