"""A run on a cluster is read and captured through the cluster's file server."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.control import capture
from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import capture_run
from runtime.control.captured_source import CapturedSource
from runtime.control.captures import CaptureState
from runtime.control.cluster_source import ClusterFolders, ClusterSource
from runtime.control.manifest import read_manifest
from runtime.control.requests import LogQuery
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_reads.run_logs import read_logs
from runtime.control.run_source import FolderSource, SourceUnavailableError
from runtime.control.run_sources import RunFolder
from runtime.kubernetes_volume_job import VolumeTask, VolumeTaskError
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import sources_of
from tests.runtime.control.reading.files_proxy import run_files
from tests.runtime.control.reading.run_files import NOON, RUN_ID, stored_run, write_run
from tests.waiting import wait_for


def test_the_file_server_gives_what_the_folder_gives(tmp_path: Path) -> None:
    root = write_run(tmp_path).path
    (root / "configs" / "a b#?.txt").write_text("odd name")
    here = FolderSource(root)

    with run_files(tmp_path) as (files, _):
        there = ClusterSource(files, RUN_ID)
        for folder in ("", "logs/attempt_1", "rollouts", "nowhere"):
            assert there.entries(folder) == here.entries(folder)
        for path in ("metrics.jsonl", "configs/a b#?.txt", "checkpoints/step_4/trainer/none"):
            assert there.size(path) == here.size(path)
            assert there.read(path, 3, 1000) == here.read(path, 3, 1000)


def test_a_run_is_captured_through_the_file_server_in_spite_of_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_RETRY_S", (0.01,))
    root = write_run(tmp_path).path
    run, store = stored_run(tmp_path, RunState.COMPLETED), DirectoryStore(tmp_path / "artifacts")

    with run_files(tmp_path) as (files, api):
        api.is_away = True
        threading.Timer(0.3, lambda: setattr(api, "is_away", False)).start()
        result = capture_run(run, ClusterSource(files, RUN_ID), store)

    assert result.capture is Capture.DONE
    manifest = read_manifest(store, RUN_ID)
    assert manifest is not None
    captured = CapturedSource(store, manifest)
    for path in ("metrics.jsonl", "logs/attempt_1/envs/train/math.log"):
        assert captured.read(path, 0, 10**6) == (root / path).read_bytes()


def test_logs_of_a_run_on_a_cluster_are_searched_on_its_volume(tmp_path: Path) -> None:
    write_run(tmp_path)
    query = LogQuery(component="trainer", search="step 3[26]", is_regex=True)

    with run_files(tmp_path) as (files, api):
        folder = RunFolder(source=ClusterSource(files, RUN_ID), is_live=True, is_local=False)
        page = read_logs(stored_run(tmp_path), query, folder, now=NOON)
        api.is_away = True
        with pytest.raises(SourceUnavailableError):
            read_logs(stored_run(tmp_path), query, folder, now=NOON)

    assert [line.split()[-3] for line in page.text.splitlines()] == ["32", "36"]


def test_a_task_that_cannot_be_done_leaves_the_upload_to_the_server(tmp_path: Path) -> None:
    asked: list[VolumeTask] = []

    def refuse(task: VolumeTask) -> Mapping[str, Any]:
        asked.append(task)
        raise VolumeTaskError("no Jobs here")

    with run_files(tmp_path) as (files, _):
        source = ClusterSource(files, RUN_ID, refuse)

        assert source.upload("a", 0, 9, "http://secret-url") is None
        assert source.upload("b", 0, 9, "http://secret-url") is None

    assert [task.words for task in asked] == [("upload", "a", "0", "9")]
    assert (asked[0].sub_path, asked[0].is_read_only) == ("runs/run-1", True)
    assert "secret-url" not in repr(asked[0])


def test_an_upload_ends_with_its_capture(tmp_path: Path) -> None:
    def go_on(task: VolumeTask) -> Mapping[str, Any]:
        task.check_time()
        raise AssertionError("the upload did not ask for its time")

    def check_time() -> None:
        raise TimeoutError("the server ends")

    with run_files(tmp_path) as (files, _), pytest.raises(TimeoutError):
        ClusterSource(files, RUN_ID, go_on).upload("a", 0, 9, "http://secret-url", check_time)


def test_directories_of_a_cluster_are_deleted_by_tasks() -> None:
    asked: list[VolumeTask] = []

    def do(task: VolumeTask) -> Mapping[str, Any]:
        asked.append(task)
        return {"moved": True}

    folders = ClusterFolders(do)

    assert folders.set_aside(RUN_ID)
    folders.delete(RUN_ID)
    assert [(task.words, task.sub_path) for task in asked] == [
        (("aside", RUN_ID), "runs"),
        (("delete", RUN_ID), "runs"),
    ]


def test_captures_run_in_the_background_and_say_how_they_ended(tmp_path: Path) -> None:
    write_run(tmp_path)
    run = stored_run(tmp_path, RunState.COMPLETED)
    capturer = StoreCapturer(sources_of(tmp_path))

    assert capturer.capture(run).state is CaptureState.RUNNING
    wait_for(lambda: capturer.capture(run).state is not CaptureState.RUNNING, timeout_s=60)

    assert capturer.capture(run).state is CaptureState.DONE
    capturer.close()
    assert read_manifest(DirectoryStore(tmp_path / "artifacts"), RUN_ID) is not None
