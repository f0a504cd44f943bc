"""The loop that looks for clusters goes on whatever fails in one of its looks."""

import threading
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from runtime.control import known_clusters, stacks
from runtime.control.known_clusters import KnownClusters
from runtime.control.store.store import Store
from tests.runtime.kubernetes.test_models import profile
from tests.waiting import wait_for

LAB = profile(context="fake", namespace="lab")
AWAY = OperationalError("SELECT", {}, Exception("the database system is shutting down"))


class FailsOnce:
    """Fails at the first call as where a database restarts, and answers from then on."""

    def __init__(self, answer: object = None) -> None:
        """Keep what is answered."""
        self.answer = answer
        self.num_calls = 0

    def __call__(self, *_: object) -> object:
        """Fail, or answer."""
        self.num_calls += 1
        if self.num_calls == 1:
            raise AWAY
        return self.answer


@pytest.fixture
def clusters(sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownClusters:
    exported = {"profile": LAB.model_dump(mode="json", by_alias=True)}
    monkeypatch.setattr(known_clusters, "OTHER_LOOK_S", 0.01)
    monkeypatch.setattr(stacks, "stack_updates", lambda _: {"lab": "today"})
    monkeypatch.setattr(stacks, "outputs", lambda *_: exported)
    environ = {"PULUMI_BACKEND_URL": "s3://stacks"}
    found = KnownClusters(sqlite_store, checkout=tmp_path, environ=environ)
    monkeypatch.setattr(found, "_project", lambda: None)
    return found


def run_until_served(clusters: KnownClusters) -> None:
    is_over = threading.Event()
    loop = threading.Thread(target=clusters.run, args=(is_over,), daemon=True)
    loop.start()
    try:
        wait_for(lambda: not loop.is_alive() or "lab" in clusters.profiles())
        assert loop.is_alive()
    finally:
        is_over.set()
        loop.join()


def test_a_cluster_is_found_after_the_database_was_away(
    clusters: KnownClusters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    get_run = FailsOnce()
    monkeypatch.setattr("runtime.control.store.runs.get_run", get_run)

    run_until_served(clusters)

    assert get_run.num_calls > 1
    assert "the clusters could not be looked up" in caplog.text


def test_a_cluster_is_found_though_the_models_could_not_be_listed(
    clusters: KnownClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh = FailsOnce()
    monkeypatch.setattr(clusters.models, "refresh", refresh)

    run_until_served(clusters)

    assert refresh.num_calls > 1
