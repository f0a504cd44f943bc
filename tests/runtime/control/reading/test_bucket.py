"""The artifact store on a server that verifies signatures."""

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from runtime.control import bucket_store, capture
from runtime.control.artifact_store import (
    ArtifactRefusedError,
    ArtifactStoreError,
    check_artifact_store,
    open_artifact_store,
)
from runtime.control.bucket_store import BucketStore
from runtime.control.capture import CaptureOptions, capture_run
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import read_manifest
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_source import FolderSource
from runtime.errors import SettingsError
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import sources_of
from tests.runtime.control.reading.run_files import RUN_ID, stored_run, write_run
from tests.runtime.control.reading.s3 import BUCKET, S3Server

WHERE = f"s3://{BUCKET}/paddock"
WRONG = "wrong-canary-secret"


def opened(where: str = WHERE) -> BucketStore:
    """Return the store of a URL, reached as the environment says now."""
    store = open_artifact_store(where)
    assert isinstance(store, BucketStore)
    return store


def test_objects_are_written_read_listed_and_removed(s3: S3Server, bucket: BucketStore) -> None:
    bucket.put("run/a b%2E+.txt", iter([b"hello ", b"world"]))
    bucket.put("run/empty", iter([]))
    bucket.put("runner/other", iter([b"x"]))

    assert bucket.read("run/a b%2E+.txt", 6, 100) == b"world"
    assert bucket.size("run/empty") == 0
    assert (bucket.size("run/none"), bucket.read("run/none", 0, 9)) == (None, b"")
    assert bucket.keys("run") == ["run/a b%2E+.txt", "run/empty"]
    bucket.delete("run/empty")
    assert bucket.size("run/empty") is None
    assert opened(f"s3://{BUCKET}").keys("paddock/runner") == ["paddock/runner/other"]
    assert bucket.url("run/x") == f"{WHERE}/run/x"
    assert not [one for one in s3.requests if one.startswith("POST") and "uploads" in one]


def test_a_large_object_goes_in_parts_and_is_not_there_before_the_last(
    s3: S3Server, bucket: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "_PART_BYTES", 5 << 20)
    pieces = [bytes([number]) * (1 << 20) for number in range(12)]
    s3.fault = lambda request: 503 if request.endswith("partNumber=2") else None

    with pytest.raises(ArtifactStoreError, match="InternalError"):
        bucket.put("run/large", iter(pieces))
    missing = bucket.size("run/large")
    s3.fault = lambda request: None
    bucket.put("run/large", iter(pieces))

    assert missing is None
    assert bucket.read("run/large", 0, 13 << 20) == b"".join(pieces)
    assert {"1", "2", "3"} <= {one.rpartition("partNumber=")[2] for one in s3.requests}
    assert bucket.md5("run/large") is None, "the store has no MD5 of what came in parts"


def test_a_store_that_is_fit_for_use_keeps_nothing_of_the_check(bucket: BucketStore) -> None:
    check_artifact_store(bucket, "server-1")

    assert opened(f"s3://{BUCKET}").keys("paddock") == []


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("AWS_SECRET_ACCESS_KEY", WRONG, "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "AKIDNOBODY", "InvalidAccessKeyId"),
    ],
)
def test_a_wrong_key_is_refused_and_told_without_its_value(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, value: str, code: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(ArtifactRefusedError) as caught:
        check_artifact_store(opened(), "server-1")

    assert f"cannot write {WHERE}/.checks/server-1" in str(caught.value)
    assert code in str(caught.value)
    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert s3.requests == []


@pytest.mark.parametrize(
    ("where", "left_out", "said"),
    [
        ("s3://", "", "Unable to recognise URL"),
        (WHERE, "AWS_SECRET_ACCESS_KEY", "Missing SecretAccessKey"),
    ],
)
def test_a_store_that_cannot_be_opened_is_a_problem_of_the_settings(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, where: str, left_out: str, said: str
) -> None:
    monkeypatch.delenv(left_out, raising=False)

    with pytest.raises(SettingsError, match=said) as caught:
        open_artifact_store(where)

    assert "AWS_ACCESS_KEY_ID" in str(caught.value)


def test_a_bucket_that_is_not_there_is_told(s3: S3Server) -> None:
    with pytest.raises(ArtifactStoreError, match="NoSuchBucket"):
        check_artifact_store(opened("s3://nowhere/paddock"), "server-1")


def test_a_server_does_not_begin_with_a_store_that_refuses_it(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)

    with pytest.raises(ArtifactRefusedError, match="SignatureDoesNotMatch"):
        StoreCapturer(sources_of(tmp_path, opened()))


def test_a_server_begins_while_its_store_is_away(s3: S3Server, tmp_path: Path) -> None:
    s3.fault = lambda request: 503

    StoreCapturer(sources_of(tmp_path, opened())).close()


def test_a_signed_url_takes_one_object_for_its_time(s3: S3Server, bucket: BucketStore) -> None:
    good = bucket.signed_put("run/a", timedelta(hours=1))
    late = bucket.signed_put("run/a", timedelta(0))
    answers = [
        httpx.put(url, content=b"data").status_code
        for url in (good, good.replace("/run/a?", "/run/b?"), late, good.partition("?")[0])
    ]

    assert answers == [200, 403, 403, 403]
    assert bucket.read("run/a", 0, 9) == b"data"
    assert bucket.keys("run") == ["run/a"]


def test_a_capture_that_the_store_interrupts_goes_on_where_it_was(
    s3: S3Server, bucket: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_SAVE_S", 0.0)
    root = write_run(tmp_path).path
    run = stored_run(tmp_path, RunState.COMPLETED)
    options = CaptureOptions()
    left = iter(range(20))

    def go_away(request: str) -> int | None:
        if not request.startswith("PUT") or next(left, None) is not None:
            return None
        options.stop.set()  # the server ends, too: it would go on trying
        return 503

    s3.fault = go_away
    first = capture_run(run, FolderSource(root), bucket, options)
    before = objects(s3)
    s3.requests.clear()
    s3.fault = lambda request: None
    second = capture_run(run, FolderSource(root), bucket)

    assert (first.capture, second.capture) == (Capture.RUNNING, Capture.DONE)
    assert len(before) > 5
    # only the part whose entry in the manifest was not written is done anew
    assert len({path.partition(".zst")[0] for path in before & objects(s3)}) <= 1
    manifest = read_manifest(bucket, RUN_ID)
    assert manifest is not None
    captured = CapturedSource(bucket, manifest)
    for path in manifest.files:
        assert captured.read(path, 0, 10**6) == (root / path).read_bytes(), path


def objects(s3: S3Server) -> set[str]:
    """Return what was written since the requests were cleared, without the manifest."""
    return {path for path in s3.puts("/paddock/") if not path.endswith("manifest.json")}
