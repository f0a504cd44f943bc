"""RunFiles of a cluster that takes requests and never answers: few wait, and others are told."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from runtime.kubernetes_api import ForbiddenError, KubernetesApi, KubernetesError, UnreachableError
from runtime.observe.kubernetes import run_files
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles
from tests.waiting import wait_for

WAIT_S = 60.0


class HangingApi:
    """Takes a request for pods, and raises an error once it is let go."""

    namespace = "lab"

    def __init__(self) -> None:
        """Hold every request."""
        self.go = threading.Event()
        self.num_asked = 0
        self.error = KubernetesError("nothing within 15 s")

    def list(self, kind: str, *, labels: object) -> list[dict[str, Any]]:
        """Hang, then fail."""
        self.num_asked += 1
        assert self.go.wait(WAIT_S)
        raise self.error


def client(api: object) -> RunFiles:
    return RunFiles(cast("KubernetesApi", api))  # as much of one as is asked


def fails(files: RunFiles) -> bool:
    try:
        files.entries("run-1", "")
    except FilesUnavailableError:
        return True
    return False


def test_one_reader_asks_for_the_servers_and_all_get_what_it_heard() -> None:
    api = HangingApi()
    files = client(api)
    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(fails, files) for _ in range(6)]
        wait_for(lambda: api.num_asked)
        api.go.set()
        assert all(reader.result(WAIT_S) for reader in readers)

    assert fails(files)
    assert api.num_asked == 1
    assert files.is_cut_off


def test_who_comes_while_a_silent_cluster_is_asked_again_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_files, "_ABSENT_TTL_S", 0.0)
    api = HangingApi()
    files = client(api)
    api.go.set()
    assert fails(files)
    api.go.clear()
    with ThreadPoolExecutor(2) as pool:
        first: Future[bool] = pool.submit(fails, files)
        wait_for(lambda: api.num_asked == 2)

        second = pool.submit(fails, files)

        assert second.result(WAIT_S)
        assert not first.done()
        api.go.set()
        assert first.result(WAIT_S)
    assert api.num_asked == 2


def test_a_cluster_that_refuses_one_question_is_not_away() -> None:
    api = HangingApi()
    api.go.set()
    api.error = ForbiddenError("secrets are not for you", status=403)
    files = client(api)

    assert fails(files)
    assert not files.is_cut_off


def test_a_server_that_did_not_answer_is_asked_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SilentServer:
        namespace = "lab"
        num_asked = 0

        def list(self, kind: str, *, labels: object) -> list[dict[str, Any]]:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return [{"metadata": {"name": "files-1"}, "status": ready}]

        def get(self, kind: str, name: str) -> dict[str, Any]:
            return {"data": {"token": "dG9rZW4="}}

        def proxy(self, *_: object, **__: object) -> object:
            self.num_asked += 1
            raise UnreachableError("nothing within 15 s")

    api = SilentServer()
    files = client(api)

    assert fails(files)
    assert fails(files)
    assert api.num_asked == 1
    assert not files.is_cut_off
    monkeypatch.setattr(run_files.time, "monotonic", lambda: float("inf"))
    assert fails(files)
    assert api.num_asked == 2
