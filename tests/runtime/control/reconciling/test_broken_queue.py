"""Kueue that fails keeps runs from a cluster that places them by it, and from no other."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection
from runtime.control.pod_sight import PodSight, open_sight
from runtime.kubernetes_api import KubernetesApi, UnreachableError
from tests.runtime.observe_kubernetes.scripted_api import ScriptedApi
from tests.waiting import wait_for

WORDS = "list workloads: conversion webhook failed"
EAST = ClusterProfile(
    name="east",
    gpus=(GpuOffer(name="H200_141GB", num_nodes=1, gpus_per_node=8, price_usd_per_hour=2.0),),
    connection=KubernetesConnection(context="east", namespace="lab"),
    runs_path="/runs",
)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
    monkeypatch.setattr("runtime.observe.kubernetes.watch._BACK_OFF_S", (0.02, 0.05))
    monkeypatch.setattr("runtime.observe.kubernetes.watch._WATCH_S", 1.0)
    monkeypatch.setattr("runtime.control.pod_sight._SILENT_S", 0.0)
    made = ScriptedApi()
    made.put("Workload")
    made.refused["Workload"] = UnreachableError(WORDS, status=500)
    monkeypatch.setattr(KubernetesApi, "connect", lambda _: made.as_api())
    return made


@contextmanager
def opened(profile: ClusterProfile) -> Iterator[PodSight]:
    sight = open_sight(profile)
    try:
        yield sight
    finally:
        sight.close()


def test_a_cluster_without_a_queue_is_current(api: ScriptedApi) -> None:
    with opened(EAST) as sight:
        wait_for(lambda: sight.is_current and api.num_asked["Workload"] > 2)

        assert sight.is_current


def test_a_cluster_with_a_queue_says_what_fails(api: ScriptedApi) -> None:
    with opened(EAST.model_copy(update={"queue": "lab"})) as sight:
        wait_for(lambda: WORDS in sight.room().trouble)

        assert not sight.is_current
        api.refused.clear()
        wait_for(lambda: sight.is_current)
        assert sight.room().trouble == ""
