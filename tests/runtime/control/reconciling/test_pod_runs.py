"""Runs in pods as the reconciler sees them, through a small API server."""

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection, KubernetesOffer
from runtime.control.pod_runs import PodPlace
from runtime.control.pod_sight import PodSight
from runtime.control.values import StoredRun, Wish
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.look import Look
from runtime.plan import plan_from_json
from runtime.run_record import RunRecord
from runtime.states import RunState
from tests.runtime.control.store.rows import NEW_RUN
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.observe_kubernetes import manifests
from tests.runtime.observe_kubernetes.run_volume import RunVolume
from tests.runtime.observe_kubernetes.test_headroom import node

CORE, BATCH = "/api/v1/namespaces/lab", "/apis/batch/v1/namespaces/lab"
POD, JOB = f"{CORE}/pods/run-one-1-trainer-0-0-x", f"{BATCH}/jobs/run-one-1-trainer-0"
OURS = {"app.kubernetes.io/managed-by": "paddock", "paddock.dev/control-plane": "plane-a"}
LAUNCH = """{"run_id": "run-one", "attempt": 1, "max_steps": 10, "pods": {"trainer-0-0":
{"component": "trainer-0", "role": "trainer", "log": "trainer.log"}}}"""
EXAMPLE = Path(__file__).parents[4] / "examples" / "reverse-text.toml"
STARTED = "2026-12-01T10:00:00Z"


class LookingWatch:
    """Stands in for a watch: lists everything again whenever it is asked what has changed."""

    is_current = True
    unreachable_since = None
    unread = ""

    def __init__(self, api: KubernetesApi) -> None:
        self.api = api
        self.look = Look(api, "run-one")

    def changes(self, timeout_s: float) -> set[str]:
        self.look = Look(self.api, "run-one")
        return {"run-one"}

    def open_run_ids(self) -> list[str]:
        return ["run-one"]

    def touch(self, run_id: str) -> None:
        pass

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        return self.look.facts(run_id, attempt)

    def record(self, run_id: str) -> RunRecord | None:
        return self.look.record(run_id)


def pod(statuses: list[manifests.Json]) -> manifests.Json:
    made = manifests.pod("run-one", containerStatuses=statuses)
    made["metadata"]["labels"] |= OURS
    made["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "4"}}
    made["spec"]["nodeName"] = "n0"
    return made


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeApi, PodSight]]:
    """Yield a cluster with one node of 8 GPUs and a run of one pod."""
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01, 0.01, 0.01))
    with serve_fake_api(tmp_path) as (fake, api, _):
        fake.put("/api/v1/nodes/n0", node("n0"))
        job = manifests.job("run-one")
        job["metadata"]["labels"] |= OURS
        fake.put(JOB, job)
        running = {"name": "main", "state": {"running": {"startedAt": STARTED}}}
        fake.put(POD, pod([running]))
        fake.put(f"{CORE}/configmaps/run-one-1-launch", {"data": {"launch.json": LAUNCH}})
        ClusterRecord(api, "run-one").begin_attempt(config_digest="d", attempt=1)
        offer = GpuOffer(name="H200_141GB", num_nodes=1, gpus_per_node=8, price_usd_per_hour=2.0)
        profile = ClusterProfile(
            name="east",
            gpus=(offer,),
            connection=KubernetesConnection(context="east", namespace="lab"),
            runs_path="/runs",
        )
        yield fake, PodSight(profile, api, LookingWatch(api))  # type: ignore[arg-type]  # as much as is used


def place(sight: PodSight, attempt: int = 1, *, wish: Wish = Wish.RUN) -> PodPlace:
    now = datetime.now(UTC)
    new = {one.name: getattr(NEW_RUN, one.name) for one in fields(NEW_RUN)}
    run = StoredRun(**new, created_at=now, updated_at=now)
    run = replace(run, run_id="run-one", attempt=attempt, gpu_type="H200_141GB", wish=wish)
    sight.refresh()
    return PodPlace(run=run, sight=sight)


def test_what_the_observer_writes_is_mirrored_and_metered(
    cluster: tuple[FakeApi, PodSight],
) -> None:
    _, sight = cluster

    seen = place(sight).observe()

    assert seen.transition is not None
    assert seen.transition.state is RunState.RUNNING
    assert seen.num_left == 1
    [use] = seen.uses
    assert (use.num_gpus, use.gpu_type, use.ended_at) == (4, "H200_141GB", None)
    assert use.started_at.isoformat() == "2026-12-01T10:00:00+00:00"


def test_an_end_of_the_workloads_leaves_no_pod(cluster: tuple[FakeApi, PodSight]) -> None:
    _, sight = cluster
    one = place(sight)
    assert one.num_left() == 1

    one.end_workloads("stopped on request")

    assert one.num_left() == 0
    seen = place(sight).observe()
    assert seen.transition is not None
    assert seen.transition.state is RunState.STOPPED
    assert seen.num_left == 0


def test_a_preemption_is_seen_as_the_next_attempt(cluster: tuple[FakeApi, PodSight]) -> None:
    _, sight = cluster
    ClusterRecord(sight.api, "run-one").preempt("preempted (Preempted): by another", attempt=1)

    seen = place(sight).observe()

    assert seen.preempted
    assert seen.preemption.startswith("preempted")
    assert seen.transition is None
    assert not place(sight, attempt=2).observe().preempted


def test_a_next_attempt_says_since_when_the_one_before_holds_nothing(
    cluster: tuple[FakeApi, PodSight],
) -> None:
    _, sight = cluster
    record = ClusterRecord(sight.api, "run-one")
    record.advance(RunState.STOPPED, attempt=1, reason="ended for attempt 2")
    begun = record.begin_attempt(config_digest="d", attempt=2)

    assert place(sight, attempt=2).observe().began_at == begun.times[-1].time
    assert place(sight, attempt=1).observe().began_at is None


def saved(sight: PodSight, halves: dict[int, str]) -> RunVolume:
    """Show a run directory with these halves of checkpoints."""
    paths = [f"step_{step}/{half}" for step, names in halves.items() for half in names.split()]
    volume = sight.files = RunVolume()
    volume.files = {f"run-one/checkpoints/{path}/file": b"" for path in paths}
    return volume


def test_a_pause_sees_the_newest_whole_checkpoint(cluster: tuple[FakeApi, PodSight]) -> None:
    _, sight = cluster
    both, one = "orchestrator trainer", place(sight, wish=Wish.PAUSE)
    unseen = one.observe()
    assert (unseen.has_checkpoint_step, unseen.are_checkpoints_known) == (None, False)
    halves = {8: both, 10: both, 12: "trainer"}
    for more, step in (({}, 10), ({12: "orchestrator"}, 10), ({12: both}, 12)):
        volume = saved(sight, halves | more)
        assert one.observe().has_checkpoint_step == step
    num_reads = volume.num_reads
    assert place(sight).observe().has_checkpoint_step is None, "nobody asks"
    assert volume.num_reads == num_reads
    saved(sight, {12: "trainer"})
    assert one.observe().has_checkpoint_step is None


def test_the_room_says_who_holds_what(cluster: tuple[FakeApi, PodSight]) -> None:
    fake, sight = cluster
    fake.put("/api/v1/pods/run-one-1-trainer-0-0-x", fake.objects[POD])  # of every namespace

    [found] = sight.room().nodes

    assert (found.num_gpus, found.num_free, found.held) == (8, 4, {"run-one": 4})


def test_a_node_whose_gpus_are_away_is_there(cluster: tuple[FakeApi, PodSight]) -> None:
    fake, sight = cluster
    fake.put("/api/v1/nodes/n0", node("n0", gpus=0))
    offer = sight.profile.gpus[0]
    kubernetes = KubernetesOffer(image_repository="prime-rl", run_claim="runs")
    sight.profile = sight.profile.model_copy(update={"kubernetes": kubernetes})

    room = sight.room()

    assert [(one.name, one.gpu_type, one.num_gpus) for one in room.nodes] == [("n0", offer.name, 0)]
    assert not room.has_no_node(offer)
    assert not room.has_free(offer)


def test_a_room_that_may_not_be_read_says_so(cluster: tuple[FakeApi, PodSight]) -> None:
    fake, sight = cluster
    fake.fail("GET", "/api/v1/nodes", 403, reason="Forbidden", message="nodes is forbidden")

    room = sight.room()

    assert room.trouble.startswith("what is free on east is not known: ")
    assert "not allowed to list nodes: nodes is forbidden" in room.trouble
    assert room.nodes == ()
    assert not room.has_free(room.profile.gpus[0])


def test_a_cluster_that_does_not_answer_is_not_asked_for_its_room(
    cluster: tuple[FakeApi, PodSight], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, sight = cluster
    monkeypatch.setattr(LookingWatch, "is_current", False)
    num_asked = len(fake.requests)

    assert sight.room().trouble == "cluster east is being looked at"
    monkeypatch.setattr(LookingWatch, "unreachable_since", time.time() - 60)
    assert sight.room().trouble == "cluster east does not answer"
    monkeypatch.setattr(LookingWatch, "unread", "list workloads: webhook failed")
    said = "not everything on east can be read: list workloads: webhook failed"
    assert sight.room().trouble == said
    assert len(fake.requests) == num_asked


def test_a_room_outlives_a_moment_of_silence(
    cluster: tuple[FakeApi, PodSight], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sight = cluster
    before = sight.room()
    monkeypatch.setattr(LookingWatch, "is_current", False)
    monkeypatch.setattr(LookingWatch, "unreachable_since", time.time())

    assert sight.room() == before
    assert not before.trouble


def test_what_is_left_names_its_control_plane(cluster: tuple[FakeApi, PodSight]) -> None:
    _, sight = cluster

    found = {one.kind: one for one in sight.leftovers()}

    assert found.keys() == {"Job", "Pod"}
    assert {one.control_plane_id for one in found.values()} == {"plane-a"}
    assert found["Pod"].num_gpus == 4
    [run] = sight.found_runs()
    assert (run.record.run_id, run.control_plane_id) == ("run-one", "plane-a")


def test_a_run_that_nobody_signed_is_found_with_its_config(
    cluster: tuple[FakeApi, PodSight],
) -> None:
    fake, sight = cluster
    for path in (JOB, POD):
        del fake.objects[path]["metadata"]["labels"]["paddock.dev/control-plane"]
    [early] = sight.found_runs()
    fake.put(f"{CORE}/configmaps/run-one-1-launch", {"data": {"rl.toml": EXAMPLE.read_text()}})

    [run] = sight.found_runs()

    assert (early.config_text, early.plan_json) == ("", "")
    assert run.config_text == EXAMPLE.read_text()
    plan = plan_from_json(run.plan_json)
    assert (plan.run_id, plan.attempt, plan.target) == ("run-one", 1, "kubernetes")
    assert (plan.name, plan.max_steps) == ("reverse-text-hosted", 100)


def test_a_sweep_takes_everything_but_the_record(cluster: tuple[FakeApi, PodSight]) -> None:
    _, sight = cluster

    place(sight).sweep("plane-a")

    assert sight.leftovers() == []
    assert ClusterRecord(sight.api, "run-one").read() is not None


def test_a_sweep_leaves_what_another_control_plane_or_nobody_signed(
    cluster: tuple[FakeApi, PodSight],
) -> None:
    fake, sight = cluster
    for name, signer in (("others", "plane-b"), ("nobodys", "")):
        made = manifests.job("run-one")
        made["metadata"]["labels"] |= OURS | {"paddock.dev/control-plane": signer}
        if not signer:
            del made["metadata"]["labels"]["paddock.dev/control-plane"]
        fake.put(f"{BATCH}/jobs/{name}", made)

    place(sight).sweep("plane-a")

    left = {(one.name, one.control_plane_id) for one in sight.leftovers()}
    assert left == {("others", "plane-b"), ("nobodys", "")}
