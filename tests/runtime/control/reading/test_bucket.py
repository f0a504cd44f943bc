"""The artifact store on S3, over HTTP, and uploads to it from beside a run volume."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runtime.control import capture
from runtime.control.artifact_store import (
    ArtifactStoreError,
    BucketStore,
    open_artifact_store,
)
from runtime.control.capture import capture_run
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import read_manifest
from runtime.control.run_capture import parts
from runtime.control.run_source import FolderSource, Uploaded
from runtime.launch import volume_task
from runtime.states import Capture, RunState
from tests.runtime.control.reading.fake_s3 import FakeS3, fake_s3
from tests.runtime.control.reading.run_files import RUN_ID, stored_run, write_run


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    """Run a bucket, and let the environment name it."""
    with fake_s3() as server:
        environment = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret-canary",
            "AWS_REGION": "us-east-1",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def bucket(s3: FakeS3) -> BucketStore:
    """Return the store of that bucket."""
    store = open_artifact_store("s3://artifacts/paddock")
    assert isinstance(store, BucketStore)
    return store


def test_objects_are_written_read_listed_and_removed(s3: FakeS3, bucket: BucketStore) -> None:
    bucket.put("run/a b%2E+.txt", iter([b"hello ", b"world"]))
    bucket.put("run/empty", iter([]))
    bucket.put("runner/other", iter([b"x"]))

    assert bucket.read("run/a b%2E+.txt", 6, 100) == b"world"
    assert bucket.size("run/empty") == 0
    assert (bucket.size("run/none"), bucket.read("run/none", 0, 9)) == (None, b"")
    assert bucket.keys("run") == ["run/a b%2E+.txt", "run/empty"]
    bucket.delete("run/empty")
    assert bucket.size("run/empty") is None
    assert all(key.startswith("paddock/") for key in s3.objects)
    assert bucket.url("run/x") == "s3://artifacts/paddock/run/x"


def test_a_large_object_goes_in_parts(
    s3: FakeS3, bucket: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.artifact_store._PART_BYTES", 5 << 20)
    pieces = [bytes([number]) * (1 << 20) for number in range(12)]

    bucket.put("run/large", iter(pieces))

    assert s3.objects["paddock/run/large"] == b"".join(pieces)
    assert bucket.md5("run/large") is not None


def test_a_store_that_refuses_says_so_without_a_secret(s3: FakeS3, bucket: BucketStore) -> None:
    s3.fail_next = 1

    with pytest.raises(ArtifactStoreError) as caught:
        bucket.put("run/a", iter([b"x"]))

    assert "s3://artifacts/paddock/run/a" in str(caught.value)
    assert "canary" not in str(caught.value)


class BesideSource(FolderSource):
    """A run directory whose parts are uploaded by the program that runs beside the volume."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run the program on this folder."""
        super().__init__(path)
        self.uploaded: list[str] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(volume_task, "ROOT", str(path))
        monkeypatch.setattr(volume_task, "TERMINATION_LOG", str(path.parent / "termination"))

    def upload(self, path: str, offset: int, size: int, url: str) -> Uploaded | None:
        """Upload as the pod would."""
        self._monkeypatch.setenv(volume_task.UPLOAD_URL, url)
        assert volume_task.main(["upload", path, str(offset), str(size)]) == 0
        said: Mapping[str, str] = json.loads(Path(volume_task.TERMINATION_LOG).read_text())
        self.uploaded.append(path)
        return Uploaded(sha256=said["sha256"], md5=said["md5"])


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
    model = "checkpoints/step_4/trainer/model.safetensors"
    assert set(source.uploaded) == {model}
    manifest = read_manifest(bucket, RUN_ID)
    assert manifest is not None
    captured = CapturedSource(bucket, manifest)
    assert captured.read(model, 0, 10**6) == (root / model).read_bytes()
    for path, file in manifest.files.items():
        assert captured.read(path, 0, 10**6) == (root / path).read_bytes(), path
        assert file.num_kept == file.size


def test_an_upload_that_the_store_refuses_fails_and_says_why(
    s3: FakeS3, bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = BesideSource(tmp_path, monkeypatch)
    (tmp_path / "file").write_bytes(b"x" * 100)
    s3.fail_next = 1

    with pytest.raises(AssertionError):
        source.upload("file", 0, 100, bucket.signed_put("k", parts._UPLOAD_VALID))

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
