"""RunFiles with a file server of the cluster and one of a volume: who shows a run is asked."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from runtime import naming
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.launch.files import FilesServer, Volumes
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles
from tests.runtime.control.reading.files_proxy import TOKEN, ProxyApi

VOLUME, CLUSTER = "files-volume", "files-cluster"


class TwoServers(ProxyApi):
    """An API server before two file servers; notes whom it was asked for."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self.asked: list[tuple[str, str]] = []
        self.away: set[str] = set()

    def list(self, kind: str, *, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        own = {naming.LABEL_VOLUME: "shelf"}
        return [  # the volume's first, as the API may list them
            {"metadata": {"name": VOLUME, "labels": own}, "status": ready},
            {"metadata": {"name": CLUSTER, "labels": {}}, "status": ready},
        ]

    def proxy(
        self,
        pod: str,
        port: int,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        self.asked.append((pod, path))
        if pod in self.away:
            raise KubernetesError("no endpoint", status=503)
        url = f"http://127.0.0.1:{self._ports[pod]}/{path}"
        return httpx.get(url, headers=dict(headers or {}), params=dict(query or {}))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TwoServers]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with contextlib.ExitStack() as stack:
        ports = {}
        for name, run_id in ((CLUSTER, "run-default"), (VOLUME, "run-shelf")):
            folder = tmp_path / name / "runs" / run_id
            folder.mkdir(parents=True)
            (folder / "metrics.jsonl").write_text(run_id)
            server = FilesServer(("127.0.0.1", 0), Volumes([tmp_path / name]), token)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            ports[name] = int(server.server_address[1])
        yield TwoServers(ports)


def client(api: TwoServers) -> RunFiles:
    return RunFiles(cast("KubernetesApi", api))  # as much of one as is asked


def test_a_run_is_read_from_the_server_that_shows_it(api: TwoServers) -> None:
    files = client(api)

    for run_id in ("run-default", "run-shelf"):
        piece = files.read(run_id, "metrics.jsonl")
        assert piece is not None
        assert piece.data == run_id.encode()
        assert files.names(run_id, "") == ["metrics.jsonl"]
    assert [pod for pod, path in api.asked if path.startswith("files/")] == [CLUSTER, VOLUME]


def test_who_shows_a_run_is_asked_once(api: TwoServers) -> None:
    files = client(api)
    files.names("run-shelf", "")
    before = len(api.asked)

    files.names("run-shelf", "")

    assert api.asked[before:] == [(VOLUME, "list/run-shelf/")]


def test_a_run_that_nobody_shows_yet_is_asked_of_the_clusters_own(api: TwoServers) -> None:
    files = client(api)

    assert files.read("run-new", "metrics.jsonl") is None
    assert api.asked[-1] == (CLUSTER, "files/run-new/metrics.jsonl")


def test_a_server_that_is_away_hides_its_own_runs_alone(api: TwoServers) -> None:
    files = client(api)
    api.away = {CLUSTER}

    assert files.names("run-shelf", "") == ["metrics.jsonl"]
    with pytest.raises(FilesUnavailableError):
        files.names("run-default", "")


@pytest.mark.parametrize(
    ("texts", "bounds", "said"),
    [
        ("", {"start": "0", "end": "9"}, "X-Paddock-Texts: 1 to 16, in hex"),
        ("6f,,6f", {"start": "0", "end": "9"}, "X-Paddock-Texts: 1 to 16, in hex"),
        ("6", {"start": "0", "end": "9"}, "X-Paddock-Texts: 1 to 16, in hex"),
        (",".join(["6f"] * 17), {"start": "0", "end": "9"}, "X-Paddock-Texts: 1 to 16, in hex"),
        ("6f", {"start": "0"}, "start, end: offsets of lines"),
        ("6f", {"start": "-1", "end": "9"}, "start, end: offsets of lines"),
    ],
)
def test_a_search_that_is_none_is_refused(
    api: TwoServers, texts: str, bounds: dict[str, str], said: str
) -> None:
    headers = {"X-Paddock-Token": TOKEN, "X-Paddock-Texts": texts}

    answer = api.proxy(CLUSTER, 0, "find/run-default/metrics.jsonl", headers=headers, query=bounds)

    assert (answer.status_code, answer.text.strip()) == (400, said)


def test_a_search_is_told_what_lies_within_its_bounds(api: TwoServers, tmp_path: Path) -> None:
    path = tmp_path / CLUSTER / "runs" / "run-default" / "a.log"
    path.write_text("needle 1\nhay\nNEEDLE 2\n")
    files = client(api)

    def find(first: int, stop: int, *, folds: bool) -> tuple[tuple[int, int], ...]:
        found = files.find("run-default", "a.log", (first, stop), [b"needle"], folds=folds)
        assert found is not None
        assert found.reached == first
        return found.spans

    assert find(0, 22, folds=False) == ((0, 22),)  # lines in a row, to save questions
    assert find(9, 22, folds=False) == ()
    assert find(9, 99, folds=True) == ((13, 22),)
    assert files.find("run-default", "none.log", (0, 9), [b"x"], folds=False) is None
