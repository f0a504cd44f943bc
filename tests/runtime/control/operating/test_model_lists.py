"""The catalog lists what `paddock models add` put into a cluster's cache, as the loop read it."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.control.cluster_catalog import ClusterCatalog
from runtime.control.known_clusters import KnownClusters
from runtime.control.model_lists import ModelLists
from runtime.control.store.store import Store
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_models import enter_model
from tests.runtime.control.operating.dispatching import MODEL, Dispatching
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.kubernetes.test_models import profile

LIST = "/configmaps/paddock-models"
LAB = profile(context="fake", namespace="lab", models=("acme/set",))
PATIENCE_S = 60.0


@pytest.fixture
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[FakeApi, KubernetesApi]]:
    """Yield the API of the cluster."""
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01, 0.01, 0.01))
    with serve_fake_api(tmp_path) as (fake, api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield fake, api


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    ends = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends
        threading.Event().wait(0.01)


def until_listed(models: ModelLists, name: str) -> None:
    """Wait until a model is listed."""
    until(lambda: name in models.names(LAB))


def test_the_catalog_has_the_models_of_settings_lists_and_this_machine(
    served: tuple[FakeApi, KubernetesApi], sqlite_store: Store, tmp_path: Path
) -> None:
    enter_model(served[1], "acme/added", revision=None, commit="1")
    dispatching = Dispatching(store=sqlite_store, folder=tmp_path)
    dispatching.add_cluster("local")
    clusters = dispatching.clusters
    clusters.found["lab"] = LAB
    catalog = ClusterCatalog(clusters=clusters, rooms=lambda: ())
    user = dispatching.user()

    unread = catalog.models(user, None)
    clusters.models.refresh(clusters.found.values())
    until_listed(clusters.models, "acme/added")
    listed = catalog.models(user, None)

    assert {(one.name, one.cluster) for one in unread} == {("acme/set", "lab"), (MODEL, "local")}
    assert {(one.name, one.cluster) for one in listed} == {
        ("acme/added", "lab"),
        ("acme/set", "lab"),
        (MODEL, "local"),
    }


def test_the_clusters_loop_has_the_lists_read(
    served: tuple[FakeApi, KubernetesApi],
    sqlite_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enter_model(served[1], "acme/added", revision=None, commit="1")
    clusters = KnownClusters(sqlite_store, checkout=tmp_path, environ={})
    monkeypatch.setattr(clusters, "profiles", lambda: {"lab": LAB})
    is_over = threading.Event()
    is_over.set()

    clusters.run(is_over)

    until_listed(clusters.models, "acme/added")


def test_the_last_list_stands_while_a_cluster_is_away(
    served: tuple[FakeApi, KubernetesApi],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake, api = served
    monkeypatch.setattr("runtime.control.model_lists.AGAIN_S", 0.0)
    enter_model(api, "acme/first", revision=None, commit="1")
    models = ModelLists()
    models.refresh([LAB])
    until_listed(models, "acme/first")
    fake.fail("GET", LIST, 503, times=4)

    models.refresh([LAB])
    until(lambda: "cannot be listed" in caplog.text)
    away = models.names(LAB)
    enter_model(api, "acme/second", revision=None, commit="2")
    until(lambda: models.refresh([LAB]) or "acme/second" in models.names(LAB))

    assert away == {"acme/first", "acme/set"}
