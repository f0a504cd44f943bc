"""The fake API and its client, a pair for each test; and what a run is placed with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import kubernetes_run
from runtime.image import ResolvedImage
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.kubernetes.placed_runs import NAMESPACE


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Yield a fake API; KUBECONFIG names it, and a test's pauses are short."""
    pytest.importorskip("httpx")
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01, 0.01, 0.01))
    with serve_fake_api(tmp_path) as (fake, _, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fake


@pytest.fixture
def api(fake: FakeApi) -> Iterator[KubernetesApi]:
    """Yield a client of the fake API in namespace lab."""
    from runtime.cluster import KubernetesConnection

    made = KubernetesApi.connect(KubernetesConnection(context="fake", namespace="lab"))
    yield made
    made.close()


@pytest.fixture
def placing(fake: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a namespace, a home, no registry, and short pauses."""
    fake.put(NAMESPACE, {"status": {"phase": "Active"}})
    fake.absent |= {"jobset", "podgroups"}
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(kubernetes_run.PATIENCE_VARIABLE, "0.05")
    monkeypatch.setattr(kubernetes_run, "_PAUSE_S", 0.01)
    monkeypatch.setattr("runtime.kubernetes_teardown._PAUSES_S", (0.01,))
    monkeypatch.setattr(
        kubernetes_run,
        "resolve_image",
        lambda repository, tag, _logins: ResolvedImage(image=f"{repository}@sha256:{tag}"),
    )


@pytest.fixture
def record(api: KubernetesApi) -> ClusterRecord:
    return ClusterRecord(api, "run-one")
