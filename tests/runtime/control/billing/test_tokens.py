"""Tokens of rollouts: exact, the same after teardown, and left out where the run says none."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.artifacts import RunDirectory
from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import capture_run
from runtime.control.readings import TokenCount
from runtime.control.run_reads import run_tokens
from runtime.control.run_reads.run_tokens import RolloutTokens
from runtime.control.run_source import Entry, FolderSource
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import reads_of
from tests.runtime.control.reading.run_files import NOON, run_directory, stored_run, write_log


def write_rollouts(
    run: RunDirectory, step: int, tokens: list[object], *, where: str = "train/all"
) -> None:
    """Write a step's rollouts, each with (input tokens, output tokens) or as it is given."""
    folder = run.rollouts / f"step_{step}" / where
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"num_input_tokens": one[0], "num_output_tokens": one[1]} if isinstance(one, tuple) else one
        for one in tokens
    ]
    (folder / "traces.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def counted(path: Path, run: StoredRun | None = None) -> tuple[int | None, int | None]:
    """Return the tokens in and out that a fresh server tells."""
    used = reads_of(path).usage(run or stored_run(path)).inference
    return used.input_tokens, used.output_tokens


class Watched(FolderSource):
    """A run directory that keeps count of what is read of it."""

    def __init__(self, path: Path) -> None:
        """Read this directory."""
        super().__init__(path)
        self.paths: list[str] = []
        self.num_sizes = 0

    def size(self, path: str) -> int | None:
        """Count and pass on."""
        self.num_sizes += 1
        return super().size(path)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Note and pass on."""
        if offset == 0:
            self.paths.append(path)
        return super().read(path, offset, size)

    def entries(self, folder: str) -> list[Entry]:
        """Pass on."""
        return super().entries(folder)


def test_the_tokens_of_all_rollouts_are_added_up_exactly(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    write_rollouts(directory, 1, [(40, 5), (2**60 // 10**6, 1)])
    write_rollouts(directory, 2, [(7, 3)])
    write_rollouts(directory, 2, [(7, 3)], where="train/effective")  # of `all` a second time
    write_rollouts(directory, 2, [(1000, 100)], where="eval/effective")

    assert counted(tmp_path) == (40 + 2**60 // 10**6 + 7 + 1000, 109)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], (None, None)),
        ([{"reward": 1.0}], (None, None)),
        ([{"reward": 1.0}, (4, 2)], (4, 2)),
        ([{"num_input_tokens": -1, "num_output_tokens": 10**18}], (None, None)),
        ([{"num_input_tokens": True, "num_output_tokens": 2.5}], (None, None)),
        ([{"num_input_tokens": None, "num_output_tokens": 2}], (0, 2)),
        ([(0, 0)], (0, 0)),
    ],
)
def test_what_no_rollout_says_is_left_out(
    tmp_path: Path, rows: list[object], expected: tuple[int | None, int | None]
) -> None:
    write_rollouts(run_directory(tmp_path), 1, rows)

    assert counted(tmp_path) == expected


def test_they_are_kept_after_the_teardown(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    write_rollouts(directory, 1, [(40, 5), (41, 6)])
    write_log(directory, "orchestrator.log", [(NOON, "done")])
    run = stored_run(tmp_path, RunState.COMPLETED)
    before = counted(tmp_path, run)
    capture_run(run, FolderSource(directory.path), DirectoryStore(tmp_path / "artifacts"))
    shutil.rmtree(directory.path)

    assert counted(tmp_path, replace(run, capture=Capture.DONE)) == before == (81, 11)


def test_a_file_is_read_once_and_old_steps_are_not_even_looked_at(tmp_path: Path) -> None:
    directory, run = run_directory(tmp_path), stored_run(tmp_path)
    for step in range(1, 21):
        write_rollouts(directory, step, [(1, 2)])
    source, tokens = Watched(directory.path), RolloutTokens()

    first = tokens.count(run, source, is_live=True)
    num_sizes, source.num_sizes = source.num_sizes, 0
    write_rollouts(directory, 20, [(1, 2), (5, 5)])  # was not whole
    write_rollouts(directory, 21, [(10, 20)])
    second = tokens.count(run, source, is_live=True)

    assert first == TokenCount(input_tokens=20, output_tokens=40)
    assert second == TokenCount(input_tokens=35, output_tokens=65)
    assert len(source.paths) == 20 + 2
    assert source.num_sizes < num_sizes / 2


def test_the_steps_of_a_later_attempt_are_counted_anew(tmp_path: Path) -> None:
    directory, run, tokens = run_directory(tmp_path), stored_run(tmp_path), RolloutTokens()
    source = FolderSource(directory.path)
    write_rollouts(directory, 1, [(1, 2)])
    tokens.count(run, source, is_live=False)
    write_rollouts(directory, 1, [(2, 1)])  # of the same size

    again = tokens.count(replace(run, attempt=2), source, is_live=False)

    assert again == TokenCount(input_tokens=2, output_tokens=1)


def test_a_part_of_the_rollouts_is_never_told_as_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, run = run_directory(tmp_path), stored_run(tmp_path)
    for step in range(1, 5):
        write_rollouts(directory, step, [(1, 2)])
    monkeypatch.setattr(run_tokens, "MAX_BYTES", 0)
    tokens, source = RolloutTokens(), FolderSource(directory.path)
    looks = [tokens.count(run, source, is_live=True)]
    while looks[-1].input_tokens is None:
        looks.append(tokens.count(run, source, is_live=True))
        assert len(looks) < 20

    assert len(looks) == 4  # a file each
    assert looks[-1] == TokenCount(input_tokens=4, output_tokens=8)
