"""Readings of a run are the same while it lives and after its volume is gone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import capture_run
from runtime.control.log_search import frames
from runtime.control.requests import LogQuery, StepRange
from runtime.control.run_reads import reads, run_logs
from runtime.control.run_reads.reads import RunReads
from runtime.control.run_source import FolderSource
from runtime.control.values import StoredRun
from runtime.errors import NotFoundError, RefusedError, SettingsError
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import OneCluster, reads_of
from tests.runtime.control.reading.run_files import (
    NOON,
    run_directory,
    stored_run,
    write_log,
    write_run,
)

QUERIES = [
    LogQuery(),
    LogQuery(component="trainer", num_lines=7),
    LogQuery(component="inference", level="ERROR"),
    LogQuery(component="env-server", env_name="math", search="step 1"),
    LogQuery(component="trainer", search="ERR.R \\d+", is_regex=True),
    LogQuery(component="trainer", search="^  at line", is_regex=True, level="WARNING"),
    LogQuery(component="orchestrator", since_s=25),
    LogQuery(component="orchestrator", since_s=25, level="DEBUG", search="2"),
    LogQuery(component="trainer", search="nowhere"),
]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be 50 seconds after the first line."""
    monkeypatch.setattr(reads.time, "time", lambda: NOON + 50)


def taken_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """Capture the run in many small frames, remove its run directory, and return it."""
    monkeypatch.setattr(frames, "FRAME_BYTES", 200)
    run = stored_run(tmp_path, RunState.COMPLETED)
    root = run_directory(tmp_path).path
    result = capture_run(run, FolderSource(root), DirectoryStore(tmp_path / "artifacts"))
    assert result.capture is Capture.DONE
    shutil.rmtree(root)
    return replace(run, capture=Capture.DONE)


@pytest.mark.usefixtures("clock")
def test_all_readings_are_the_same_after_teardown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path)

    def readings(run: StoredRun) -> list[object]:
        reader = reads_of(tmp_path)
        return [
            [reader.logs(run, query) for query in QUERIES],
            reader.metrics(run, StepRange()),
            reader.samples(run, step=2, offset=1, limit=5),
            replace(reader.progress(run), updated_at=None),
            reader.distribution(run, kind=None, step=None),
            reader.components(run),
            [(one.step, one.status, one.size_bytes) for one in reader.checkpoints(run)],
        ]

    before = readings(stored_run(tmp_path, RunState.COMPLETED))
    after = readings(taken_down(tmp_path, monkeypatch))

    assert after == before


@pytest.mark.usefixtures("clock")
def test_a_log_is_filtered_by_all_flags(tmp_path: Path) -> None:
    write_run(tmp_path)
    reader, run = reads_of(tmp_path), stored_run(tmp_path)

    def lines(**query: object) -> list[str]:
        return reader.logs(run, LogQuery(**query)).text.splitlines()  # type: ignore[arg-type]  # by name

    assert len(lines()) == 40
    assert lines(num_lines=2) == ["12:00:38 ERROR 38 failed", "12:00:39   at line 39"]
    assert lines(level="ERROR", num_lines=2) == lines(num_lines=2)
    assert lines(search="step 36") == ["12:00:36 INFO step 36 reward 0.5"]
    assert lines(search="step 3[26]", is_regex=True, num_lines=1) == lines(search="step 36")
    # 50 s after noon: lines of the last 20 s, and the second that the index rounds to
    assert lines(since_s=20)[0].startswith("12:00:29")


def test_a_log_goes_on_from_attempt_to_attempt(tmp_path: Path) -> None:
    directory = run_directory(tmp_path)
    write_log(directory, "trainer.log", [(NOON, "one"), (NOON + 1, "two")], attempt=1)
    write_log(directory, "trainer.log", [(NOON + 9, "three")], attempt=2)
    reader, run = reads_of(tmp_path), stored_run(tmp_path, attempt=2)

    text = reader.logs(run, LogQuery(component="trainer")).text
    tail = reader.logs(run, LogQuery(component="trainer", num_lines=2)).text

    assert text == "one\ntwo\nthree\n"
    assert tail == "two\nthree\n"


def test_several_components_of_a_role_are_merged_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run_directory(tmp_path)
    run = stored_run(tmp_path)
    two = [
        run_logs.RunComponent(
            name=f"inference-{n}", role="inference", log=f"inference/node_{n}.log"
        )
        for n in range(2)
    ]
    monkeypatch.setattr(run_logs, "run_components", lambda run, source: tuple(two))
    write_log(directory, two[0].log, [(NOON, "a"), (NOON + 5, "c"), (NOON + 6, "d")])
    write_log(directory, two[1].log, [(NOON + 2, "b"), (NOON + 9, "e")])
    reader = reads_of(tmp_path)

    merged = reader.logs(run, LogQuery(component="inference", num_lines=4)).text.splitlines()
    second = reader.logs(run, LogQuery(component="inference", index=1)).text

    assert [line[-1] for line in merged] == ["b", "c", "d", "e"]
    assert merged[0] == "[inference-1] b"
    assert second == "b\ne\n"


def test_a_torn_line_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    path = write_log(run_directory(tmp_path), "trainer.log", [(NOON, "whole")])
    with path.open("ab") as file:
        file.write(b"to")
    reader, query = reads_of(tmp_path), LogQuery(component="trainer")

    live = reader.logs(stored_run(tmp_path), query)
    over = reader.logs(stored_run(tmp_path, RunState.FAILED), query)

    assert live.text == "whole\n"
    assert over.text == "whole\nto\n"


@pytest.mark.usefixtures("clock")
def test_a_clock_of_a_node_that_is_off_hides_no_line(tmp_path: Path) -> None:
    class FarCluster(OneCluster):
        """Is no cluster of this machine's clock."""

    directory = run_directory(tmp_path)
    write_log(directory, "trainer.log", [(NOON - 40, "old"), (NOON - 39, "ninety seconds behind")])
    run, query = stored_run(tmp_path), LogQuery(component="trainer", since_s=60)
    folder = reads_of(tmp_path)._sources.folder_of(run)
    assert folder is not None

    here = run_logs.read_logs(run, query, folder, now=NOON + 50)
    far = run_logs.read_logs(run, query, replace(folder, is_local=False), now=NOON + 50)

    assert here.text == ""
    assert here.has_started
    assert "ninety seconds behind" in far.text


@pytest.mark.parametrize(
    "query",
    [
        LogQuery(component="router"),
        LogQuery(component="env-server", env_name="other"),
        LogQuery(component="trainer", index=1),
    ],
)
def test_a_component_that_the_run_has_not_is_not_found(tmp_path: Path, query: LogQuery) -> None:
    with pytest.raises(NotFoundError, match="it has"):
        reads_of(tmp_path).logs(stored_run(tmp_path), query)


def test_a_pattern_that_is_none_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        reads_of(tmp_path).logs(stored_run(tmp_path), LogQuery(search="(", is_regex=True))


def test_a_run_without_a_place_has_written_nothing(tmp_path: Path) -> None:
    reader = reads_of(tmp_path)
    for run in (stored_run(tmp_path), replace(stored_run(tmp_path), cluster=None)):
        assert not reader.logs(run, LogQuery()).has_started
        assert reader.metrics(run, StepRange()) in ((), [])
        assert reader.progress(run).latest_step is None
        assert reader.samples(run, step=1, offset=0, limit=9).total == 0
        assert reader.distribution(run, kind=None, step=None).bins == ()
        assert reader.checkpoints(run) == ()
        assert {one.status for one in reader.components(run)} == {"PENDING"}


def test_metrics_are_both_files_in_the_order_of_time(tmp_path: Path) -> None:
    write_run(tmp_path)
    reader, run = reads_of(tmp_path), stored_run(tmp_path)

    rows = reader.metrics(run, StepRange(first=2, limit=3))

    assert [(row["step"], "loss" in row) for row in rows] == [(2, True), (3, False), (3, True)]


def test_a_torn_row_of_metrics_is_left_out(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    with directory.metrics.open("a") as file:
        file.write('not json\n{"step": 9, "rew')

    assert reads_of(tmp_path).progress(stored_run(tmp_path)).latest_step == 3


def test_samples_come_in_pages_without_what_only_a_trainer_reads(tmp_path: Path) -> None:
    write_run(tmp_path)
    reader: RunReads = reads_of(tmp_path)

    page = reader.samples(stored_run(tmp_path), step=2, offset=1, limit=1)

    assert page.total == 3
    assert [row["id"] for row in page.samples] == ["t2-1"]
    assert page.samples[0]["nodes"] == [{"message": {"role": "user"}}]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, [(0.0, 1), (0.5, 1), (1.0, 1)]),
        ("completion_length", [(3.0, 1), (4.0, 1), (5.0, 1)]),
        ("staleness", [(1.0, 3)]),
    ],
)
def test_a_distribution_counts_the_rollouts_of_a_step(
    tmp_path: Path, kind: str | None, expected: list[tuple[float, int]]
) -> None:
    write_run(tmp_path)

    found = reads_of(tmp_path).distribution(stored_run(tmp_path), kind=kind, step=None)

    assert found.step == 3
    assert [(row["bin"], row["count"]) for row in found.bins] == expected


def test_an_unknown_kind_of_distribution_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="reward"):
        reads_of(tmp_path).distribution(stored_run(tmp_path), kind="vibes", step=1)


def test_a_checkpoint_has_a_size_a_time_and_a_place(tmp_path: Path) -> None:
    directory = write_run(tmp_path)

    first, second = reads_of(tmp_path).checkpoints(stored_run(tmp_path))

    file = directory.checkpoints / "step_2" / "trainer" / "model.safetensors"
    assert (first.step, second.step) == (2, 4)
    assert first.size_bytes == file.stat().st_size
    assert first.created_at.timestamp() == pytest.approx(file.stat().st_mtime)
    assert first.storage_url == (directory.checkpoints / "step_2").as_uri()


def test_components_say_what_their_wrappers_say(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    folder = directory.status_folder(1)
    folder.mkdir(parents=True)
    (folder / "trainer-0.json").write_text('{"outcome": "failed", "log": "trainer.log"}')
    (folder / "orchestrator.json").write_text('{"heartbeat": 1e12, "log": "orchestrator.log"}')
    (folder / "inference-0.json").write_text('{"heartbeat": 1, "log": "inference.log"}')

    found = {one.name: one for one in reads_of(tmp_path).components(stored_run(tmp_path))}

    assert {name: one.status for name, one in found.items()} == {
        "trainer-0": "FAILED",
        "orchestrator": "RUNNING",
        "inference-0": "LOST",
        "env-train-math": "PENDING",
    }
    assert (found["env-train-math"].env_name, found["env-train-math"].env_index) == ("math", 0)


def test_a_link_out_of_the_run_directory_leads_nowhere(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    (tmp_path / "secret").write_text("canary\n")
    log = directory.logs(1) / "trainer.log"
    log.unlink()
    log.symlink_to(tmp_path / "secret")

    page = reads_of(tmp_path).logs(stored_run(tmp_path), LogQuery(component="trainer"))

    assert page.text == ""
