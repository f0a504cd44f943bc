"""Capture loses nothing and does nothing twice, wherever it is interrupted."""

import shutil
import threading
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from runtime.control import capture
from runtime.control.artifact_store import ArtifactStore, DirectoryStore, open_artifact_store
from runtime.control.bucket_store import BucketStore
from runtime.control.capture import CaptureOptions, capture_run
from runtime.control.captured_source import CapturedSource
from runtime.control.log_search import frames
from runtime.control.manifest import read_manifest
from runtime.control.run_capture import parts
from runtime.control.run_source import FolderSource
from runtime.errors import SettingsError
from runtime.states import Capture, RunState
from tests.runtime.control.reading.run_files import RUN_ID, stored_run, write_log, write_run
from tests.runtime.control.reading.stores import FailingSource, FailingStore, Killed

LEFT_OUT = ("broadcasts", "rank_0.bin", "step_2")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files have many frames and parts, and retries take no time."""
    monkeypatch.setattr(frames, "FRAME_BYTES", 256)
    monkeypatch.setattr(parts, "TEXT_PART_BYTES", 700)
    monkeypatch.setattr(parts, "RAW_PART_BYTES", 400)
    monkeypatch.setattr(capture, "_RETRY_S", (0.0,))


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """Return an empty store of each kind."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "artifacts")
    return BucketStore("s3://bucket/prefix", store=MemoryStore())  # type: ignore[arg-type]  # stands in


def captured(store: ArtifactStore) -> CapturedSource:
    """Return what a store holds of the run."""
    manifest = read_manifest(store, RUN_ID)
    assert manifest is not None
    assert manifest.is_complete
    return CapturedSource(store, manifest)


def wanted_files(root: Path) -> dict[str, bytes]:
    """Return the files of a run directory that are to be captured."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {
        path: file.read_bytes()
        for path, file in found.items()
        if not (path.startswith("checkpoints/step_2") or path.endswith(".bin"))
        and not path.startswith("broadcasts")
    }


def check(store: ArtifactStore, root: Path) -> None:
    """Assert that a store holds the run directory, and nothing else."""
    source, files = captured(store), wanted_files(root)
    assert source.manifest.files.keys() == files.keys()
    for path, data in files.items():
        assert source.size(path) == len(data)
        assert source.read(path, 0, len(data) + 10) == data
        assert source.read(path, 5, 7) == data[5:12]
    named = {part.key for file in source.manifest.files.values() for part in file.parts}
    others = [key for key in store.keys(RUN_ID) if key not in named]
    assert {key.rpartition(".")[2] for key in others} <= {"json", "frames", "trigrams"}


def test_a_run_is_captured_whole(store: ArtifactStore, tmp_path: Path) -> None:
    root = write_run(tmp_path).path

    result = capture_run(stored_run(tmp_path, RunState.COMPLETED), FolderSource(root), store)

    assert (result.capture, result.reason) == (Capture.DONE, "")
    assert result.num_files == len(wanted_files(root))
    check(store, root)
    checkpoints = captured(store).manifest.checkpoints
    assert [(one.step, one.is_kept) for one in checkpoints] == [(2, False), (4, True)]
    assert [one.size for one in checkpoints] == [1024, 1024]
    assert min(one.mtime for one in checkpoints) > 0
    assert checkpoints[1].url.endswith("/run-1/files/checkpoints/step_4")


def test_a_capture_that_is_killed_anywhere_goes_on(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    run, source = stored_run(tmp_path, RunState.COMPLETED), FolderSource(root)
    counted = FailingStore(tmp_path / "counted")
    capture_run(run, source, counted)

    for number in {*range(1, counted.num_calls, 7), counted.num_calls}:
        store = FailingStore(tmp_path / "killed")
        store.fails_at, store.error = number, Killed
        with pytest.raises(Killed):
            capture_run(run, source, store)
        result = capture_run(run, source, DirectoryStore(tmp_path / "killed"))

        assert result.capture is Capture.DONE
        check(DirectoryStore(tmp_path / "killed"), root)
        shutil.rmtree(tmp_path / "killed")


def test_what_is_captured_already_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_SAVE_S", 0.0)
    root = write_run(tmp_path).path
    run, source = stored_run(tmp_path, RunState.COMPLETED), FolderSource(root)
    store = FailingStore(tmp_path / "artifacts")
    store.fails_at, store.error = 60, Killed
    with pytest.raises(Killed):
        capture_run(run, source, store)
    store.fails_at = None
    again = FailingStore(tmp_path / "artifacts")
    whole = FailingStore(tmp_path / "whole")
    capture_run(run, source, whole)

    capture_run(run, source, again)

    assert again.num_calls <= whole.num_calls - 25
    check(again, root)


def test_a_store_and_a_source_that_fail_are_tried_again(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    store, source = FailingStore(tmp_path / "artifacts"), FailingSource(root)
    store.fails_at, source.num_failures = 9, 3

    result = capture_run(stored_run(tmp_path, RunState.COMPLETED), source, store)

    assert result.capture is Capture.DONE
    check(store, root)


def test_after_its_deadline_a_capture_is_incomplete_and_says_why(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    source = FailingSource(root)
    source.num_failures = 10**9
    options = CaptureOptions(limit_s=2.0)

    result = capture_run(
        stored_run(tmp_path, RunState.FAILED), source, DirectoryStore(tmp_path / "a"), options
    )

    assert (result.capture, result.reason) == (Capture.INCOMPLETE, "the source is away")


def test_a_server_that_ends_leaves_the_capture_to_the_next(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    stop = threading.Event()
    stop.set()

    result = capture_run(
        stored_run(tmp_path, RunState.FAILED),
        FolderSource(root),
        DirectoryStore(tmp_path / "a"),
        CaptureOptions(stop=stop),
    )

    assert result.capture is Capture.RUNNING


def test_an_object_that_was_damaged_since_is_written_again(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    store = DirectoryStore(tmp_path / "artifacts")
    run = stored_run(tmp_path, RunState.COMPLETED)
    capture_run(run, FolderSource(root), store)
    part = captured(store).manifest.files["logs/attempt_1/trainer.log"].parts[1]
    (tmp_path / "artifacts" / part.key).write_bytes(b"")

    capture_run(run, FolderSource(root), store)

    check(store, root)


def test_what_a_later_attempt_wrote_is_added_and_nothing_is_lost(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    store = DirectoryStore(tmp_path / "artifacts")
    capture_run(stored_run(tmp_path, RunState.FAILED), FolderSource(directory.path), store)
    before = captured(store).read("rollouts/step_3/train/all/traces.jsonl", 0, 10**6)
    shutil.rmtree(directory.rollouts / "step_3")
    write_log(directory, "trainer.log", [(1.0, "INFO again")], attempt=2)

    capture_run(
        stored_run(tmp_path, RunState.COMPLETED, attempt=2), FolderSource(directory.path), store
    )

    source = captured(store)
    assert source.manifest.attempt == 2
    assert source.read("logs/attempt_2/trainer.log", 0, 100) == b"INFO again\n"
    assert source.read("rollouts/step_3/train/all/traces.jsonl", 0, 10**6) == before


def test_a_run_that_ran_and_has_no_log_is_not_captured(tmp_path: Path) -> None:
    options = CaptureOptions(limit_s=2.0)
    store = DirectoryStore(tmp_path / "artifacts")

    result = capture_run(
        stored_run(tmp_path, RunState.FAILED), FolderSource(tmp_path / "gone"), store, options
    )

    assert result.capture is Capture.INCOMPLETE
    assert "no log" in result.reason


def test_names_that_a_run_chose_badly_are_kept_apart(store: ArtifactStore, tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    names = ["a.log", "a.log.zst", "a.log.frames", "%2E x", ".hidden", "n" * 250, "\u00e9\n?*"]
    for number, name in enumerate(names):
        (root / "configs" / name).write_bytes(b"%d" % number * 500)
    (root / "configs" / "link").symlink_to("/etc/passwd")
    (root / "configs" / "own").symlink_to(root / "configs" / "a.log")

    capture_run(stored_run(tmp_path, RunState.COMPLETED), FolderSource(root), store)

    source = captured(store)
    for number, name in enumerate(names):
        assert source.read(f"configs/{name}", 0, 10_000) == b"%d" % number * 500
    assert source.size("configs/link") is None


@pytest.mark.parametrize("where", ["gs://bucket", "http://host/x"])
def test_another_kind_of_store_is_refused(where: str) -> None:
    with pytest.raises(SettingsError, match="no artifact store"):
        open_artifact_store(where)
