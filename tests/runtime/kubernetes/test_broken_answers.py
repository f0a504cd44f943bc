"""Answers of a pod's own server that break off in their middle, through the real client."""

import base64
from collections.abc import Callable

import pytest

from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.kubernetes_probes import files_answer
from runtime.kubernetes_profile import FILES_PORT, FILES_SECRET, FILES_SELECTOR
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles
from tests.runtime.kubernetes.fake_api import FakeApi

PODS = "/api/v1/namespaces/lab/pods"
PROXY = f"{PODS}/files-0:{FILES_PORT}/proxy"


@pytest.fixture
def files(fake: FakeApi, api: KubernetesApi) -> RunFiles:
    """Return the files of a cluster whose one server is ready."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    fake.put(f"{PODS}/files-0", {"metadata": {"labels": dict(FILES_SELECTOR)}, "status": ready})
    token = base64.b64encode(b"token").decode()
    fake.put(f"/api/v1/namespaces/lab/secrets/{FILES_SECRET}", {"data": {"token": token}})
    return RunFiles(api)


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("files/run-1/a.log", lambda files: files.read("run-1", "a.log")),
        ("tail/run-1/a.log", lambda files: files.tail("run-1", "a.log", num_lines=5)),
        ("list/run-1/status", lambda files: files.entries("run-1", "status")),
    ],
)
def test_a_file_that_breaks_off_is_not_available_and_read_the_next_time(
    fake: FakeApi, files: RunFiles, path: str, read: Callable[[RunFiles], object]
) -> None:
    fake.streams[f"{PROXY}/{path}"] = [b'[{"na', b"..."]
    with pytest.raises(FilesUnavailableError, match="does not answer"):
        read(files)

    fake.streams[f"{PROXY}/{path}"] = [b'[{"name": "a"}]']

    assert read(files)


def test_a_file_server_that_breaks_off_has_a_reason(
    fake: FakeApi, files: RunFiles, api: KubernetesApi
) -> None:
    fake.streams[f"{PROXY}/healthz"] = [b"o", b"..."]

    assert "context fake" in str(files_answer(api))


def test_a_proxied_body_that_breaks_off_is_an_error_of_the_api(
    fake: FakeApi, api: KubernetesApi
) -> None:
    fake.streams[f"{PROXY}/x"] = [b"abc", b"..."]

    with pytest.raises(KubernetesError):
        api.proxy("files-0", FILES_PORT, "x").read()
