"""The sight of a cluster with many runs: what it asks for, and what it forgets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection
from runtime.control.pod_sight import PodSight
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.facts import RunFacts
from runtime.run_record import RunRecord
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.observe_kubernetes import manifests

CORE, BATCH = "/api/v1/namespaces/lab", "/apis/batch/v1/namespaces/lab"
NUM_RUNS = 60
OFFER = GpuOffer(name="H200_141GB", num_nodes=8, gpus_per_node=8, price_usd_per_hour=2.0)
PROFILE = ClusterProfile(
    name="east",
    gpus=(OFFER,),
    connection=KubernetesConnection(context="east", namespace="lab"),
    runs_path="/runs",
)


class RunsWatch:
    """Stands in for a watch: some runs live, and nothing is seen to change."""

    is_current = True
    unreachable_since = None
    unread = ""

    def __init__(self, api: KubernetesApi, run_ids: list[str]) -> None:
        self.api = api
        self.run_ids = run_ids

    def changes(self, timeout_s: float) -> set[str]:
        return set()

    def open_run_ids(self) -> list[str]:
        return self.run_ids

    def record(self, run_id: str) -> RunRecord | None:
        return ClusterRecord(self.api, run_id).read()

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        return RunFacts(run_id=run_id, attempt=attempt, time=0.0)


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[tuple[FakeApi, PodSight, RunsWatch]]:
    """Yield a cluster with many signed runs that a queue holds: Jobs, and no pod yet."""
    with serve_fake_api(tmp_path) as (fake, api, _):
        run_ids = [f"run-{number}" for number in range(NUM_RUNS)]
        for run_id in run_ids:
            job = manifests.job(run_id)
            job["metadata"]["labels"] |= {"paddock.dev/control-plane": f"plane-of-{run_id}"}
            fake.put(f"{BATCH}/jobs/{run_id}-1-trainer-0", job)
            ClusterRecord(api, run_id).begin_attempt(config_digest="d", attempt=1)
        watch = RunsWatch(api, run_ids)
        yield fake, PodSight(PROFILE, api, watch), watch  # type: ignore[arg-type]  # as much as is used


def test_runs_that_a_queue_holds_are_asked_for_together(
    seen: tuple[FakeApi, PodSight, RunsWatch],
) -> None:
    fake, sight, _ = seen

    found = sight.found_runs()

    assert {one.control_plane_id for one in found} == {f"plane-of-run-{n}" for n in range(NUM_RUNS)}
    assert all(one.control_plane_id == f"plane-of-{one.record.run_id}" for one in found)
    assert fake.count("GET", "/jobs") + fake.count("GET", "/pods") == 4


def test_the_config_of_a_run_that_is_gone_is_forgotten(
    seen: tuple[FakeApi, PodSight, RunsWatch],
) -> None:
    fake, sight, watch = seen
    fake.put(f"{CORE}/configmaps/run-by-hand-1-launch", {"data": {"rl.toml": "# first"}})
    ClusterRecord(sight.api, "run-by-hand").begin_attempt(config_digest="d", attempt=1)
    watch.run_ids = ["run-by-hand"]
    [before] = sight.found_runs()
    watch.run_ids = []
    sight.found_runs()
    fake.put(f"{CORE}/configmaps/run-by-hand-1-launch", {"data": {"rl.toml": "# second"}})
    watch.run_ids = ["run-by-hand"]

    [after] = sight.found_runs()

    assert (before.config_text, after.config_text) == ("# first", "# second")


def test_a_view_that_is_not_asked_for_again_is_forgotten(
    seen: tuple[FakeApi, PodSight, RunsWatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sight, _ = seen
    sight.view("run-0")
    monkeypatch.setattr("runtime.control.pod_sight.LOOK_S", 0.0)

    sight.refresh()

    assert not sight._views
