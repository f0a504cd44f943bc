"""What the program beside a run volume does: uploads to the bucket, and directories moved."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.control import capture
from runtime.control.bucket_store import BucketStore
from runtime.control.capture import CaptureOptions, capture_run
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import read_manifest
from runtime.control.run_capture import parts
from runtime.control.run_source import FolderSource, Uploaded
from runtime.launch import volume_task
from runtime.states import Capture, RunState
from tests.runtime.control.reading.run_files import RUN_ID, stored_run, write_run

MODEL = "checkpoints/step_4/trainer/model.safetensors"


class BesideSource(FolderSource):
    """A run directory whose parts are uploaded by the program that runs beside the volume."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run the program on this folder."""
        super().__init__(path)
        self.uploaded: list[str] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(volume_task, "ROOT", str(path))
        monkeypatch.setattr(volume_task, "TERMINATION_LOG", str(path.parent / "termination"))

    def upload(
        self,
        path: str,
        offset: int,
        size: int,
        url: str,
        check_time: Callable[[], None] = lambda: None,
    ) -> Uploaded | None:
        """Upload as the pod would."""
        self._monkeypatch.setenv(volume_task.UPLOAD_URL, url)
        assert volume_task.main(["upload", path, str(offset), str(size)]) == 0
        said: Mapping[str, str] = json.loads(Path(volume_task.TERMINATION_LOG).read_text())
        self.uploaded.append(path)
        return Uploaded(sha256=said["sha256"], md5=said["md5"])


class StuckSource(FolderSource):
    """A run directory on a cluster where a Job goes on and on."""

    def __init__(self, path: Path) -> None:
        """Keep when the upload began."""
        super().__init__(path)
        self.began = threading.Event()

    def upload(
        self, path: str, offset: int, size: int, url: str, check_time: Callable[[], None]
    ) -> Uploaded | None:
        """Wait for a pod that does not end."""
        self.began.set()
        while True:
            check_time()
            time.sleep(0.01)


def test_a_server_that_ends_does_not_wait_for_an_upload(
    bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "UPLOAD_BYTES", 300)
    source, stop = StuckSource(write_run(tmp_path).path), threading.Event()
    run = stored_run(tmp_path, RunState.COMPLETED)

    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(capture_run, run, source, bucket, CaptureOptions(stop=stop))
        assert source.began.wait(60), begun.result(0)
        stop.set()
        result = begun.result(60)

    assert result.capture is Capture.RUNNING


def test_large_files_of_a_cluster_go_to_the_bucket_by_themselves(
    bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "UPLOAD_BYTES", 300)
    monkeypatch.setattr(parts, "RAW_PART_BYTES", 700)
    monkeypatch.setattr(capture, "_RETRY_S", (0.0,))
    root = write_run(tmp_path).path
    source = BesideSource(root, monkeypatch)

    result = capture_run(stored_run(tmp_path, RunState.COMPLETED), source, bucket)

    assert result.capture is Capture.DONE
    assert set(source.uploaded) == {MODEL}
    manifest = read_manifest(bucket, RUN_ID)
    assert manifest is not None
    captured = CapturedSource(bucket, manifest)
    assert captured.read(MODEL, 0, 10**6) == (root / MODEL).read_bytes()
    for path, file in manifest.files.items():
        assert captured.read(path, 0, 10**6) == (root / path).read_bytes(), path
        assert file.num_kept == file.size


def test_an_upload_that_the_store_refuses_fails_and_says_why(
    bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = BesideSource(tmp_path, monkeypatch)
    (tmp_path / "file").write_bytes(b"x" * 100)
    url = bucket.signed_put("k", parts._UPLOAD_VALID).replace("/k?", "/other?")

    with pytest.raises(AssertionError):
        source.upload("file", 0, 100, url)

    said = Path(volume_task.TERMINATION_LOG).read_text()
    assert "403" in said
    assert "Signature" not in said


def test_directories_are_moved_aside_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_task, "ROOT", str(tmp_path))
    monkeypatch.setattr(volume_task, "TERMINATION_LOG", str(tmp_path / "said"))
    (tmp_path / "run-1" / "logs").mkdir(parents=True)

    assert volume_task.main(["aside", "run-1"]) == 0
    assert json.loads((tmp_path / "said").read_text()) == {"moved": True}
    assert volume_task.main(["back", "run-1"]) == 0
    assert (tmp_path / "run-1" / "logs").is_dir()
    assert volume_task.main(["aside", "run-1"]) == 0
    assert volume_task.main(["delete", "run-1"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["said"]
    assert volume_task.main(["delete", "run-1"]) == 1
