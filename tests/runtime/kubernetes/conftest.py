"""The fake API and its client, a pair for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.kubernetes_api import KubernetesApi
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Yield a fake API; KUBECONFIG names it, and a test's pauses are short."""
    pytest.importorskip("lightkube")
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
