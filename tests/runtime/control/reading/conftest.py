"""A bucket on a server that verifies signatures, named by the environment."""

from collections.abc import Iterator

import pytest

from runtime.control import bucket_store, capture
from runtime.control.artifact_store import open_artifact_store
from runtime.control.bucket_store import BucketStore
from tests.runtime.control.reading.s3 import BUCKET, S3Server, serving_s3


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Run a server, and let the environment name it; what fails is tried again at once."""
    monkeypatch.setattr(bucket_store, "_NUM_RETRIES", 0)
    monkeypatch.setattr(capture, "_RETRY_S", (0.0,))
    with serving_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> BucketStore:
    """Return the store of its bucket."""
    store = open_artifact_store(f"s3://{BUCKET}/paddock")
    assert isinstance(store, BucketStore)
    return store
