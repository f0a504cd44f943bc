"""Servers that are killed while runs are in real pods: the next one goes on, nothing is twice.

Two servers share Postgres and S3, which is the deployment for which there are several.
"""

from collections.abc import Iterator

import pytest

from runtime.control.store import runs, usage, wallets
from runtime.control.values import UsageInterval
from runtime.states import RunState
from tests.cluster.planes import (
    END_S,
    Plane,
    nothing_is_left,
    write_toml,
)
from tests.cluster.replicas import (
    Replicas,
    Sightings,
    gpu_times,
    is_in_up,
    kill_host,
    locks,
    open_replicas,
    sighting,
)
from tests.cluster.run_files import endless_demo, small_demo
from tests.cluster.runs import GPU, POOL_GPU, START_S
from tests.runtime.control.operating.served import dispatch
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

GROUPS = ["env-train-reverse-text", "inference", "orchestrator", "trainer"]
NUM_STEPS = 16
PRICE_USD = 1.0


@pytest.fixture(scope="module")
def replicas(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Yield two hosts that serve one lab, without a server."""
    with open_replicas(testbed, tmp_path_factory.mktemp("replicas")) as made:
        yield made


def test_a_run_that_waits_for_nodes_is_stopped_and_nothing_is_left(replicas: Replicas) -> None:
    lab = replicas.lab
    with replicas.serve(lab.site) as plane, sighting(lab) as seen:
        toml = write_toml(plane, "waiting.toml", endless_demo())
        # of a type that has no node yet, as where an autoscaler makes them for the pods
        run_id = dispatch(plane.prime, toml, "--gpu-type", POOL_GPU)
        wait_for(lambda: lab.phases(run_id).count("Pending") >= 2, timeout_s=START_S)
        plane.until(run_id, RunState.PENDING, timeout_s=START_S)
        stopped = plane.prime("train", "stop", run_id, "--force")
        plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
        pods_at_stop = lab.pods(run_id)
        plane.until_torn_down(run_id)
        used = plane.found("usage", run_id)

    assert (stopped.code, pods_at_stop) == (0, []), stopped.out + stopped.err
    assert seen.groups(run_id) == GROUPS
    assert (used["gpu_hours"], used["total_cost_microusd"]) == (0, 0)
    assert lab.left(run_id) == []
    assert lab.record(run_id).state is RunState.STOPPED
    assert run_id not in lab.site.pulumi("stack", "ls").out
    assert locks() == []


def test_a_server_that_is_killed_and_started_again_goes_on_with_what_runs(
    replicas: Replicas,
) -> None:
    lab = replicas.lab
    with sighting(lab) as seen:
        with replicas.serve(lab.site) as plane:
            toml = write_toml(plane, "on.toml", small_demo(max_steps=NUM_STEPS))
            run_id = dispatch(plane.prime, toml, "--gpu-type", GPU)
            plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
            wait_for(lambda: len(lab.steps(run_id)) >= 2, timeout_s=START_S)
            before, billed = plane.logs(run_id), intervals(replicas, run_id)
            kill_host(plane)
        alone = len(lab.steps(run_id))
        wait_for(lambda: len(lab.steps(run_id)) > alone, timeout_s=START_S)
        with replicas.serve(lab.site) as again:
            live = again.logs(run_id)
            again.until(run_id, RunState.COMPLETED, timeout_s=END_S)
            again.until_torn_down(run_id)
            after = again.logs(run_id)
            nothing_is_left(again, run_id, RunState.COMPLETED)

    assert seen.groups(run_id) == GROUPS
    assert lab.steps(run_id) == list(range(1, NUM_STEPS + 1))
    assert live[: len(before)] == before
    assert len(live) > len(before)
    assert after[: len(live)] == live
    assert "Orchestrator finished" in after[-1]
    the_bill_is_right(replicas, run_id, seen)
    starts = {one.source: one.started_at for one in intervals(replicas, run_id)}
    assert {one.source: one.started_at for one in billed} == starts
    assert locks() == []


def test_the_other_server_takes_over_a_run_whose_server_and_engine_died_in_its_up(
    replicas: Replicas,
) -> None:
    lab = replicas.lab
    with (
        sighting(lab) as seen,
        replicas.serve(replicas.other) as second,
        replicas.serve(lab.site) as first,
    ):
        replicas.share(first, second)
        run_id = dispatch(first.prime, write_toml(first, "cut.toml", endless_demo()))
        victim = killed_in_up(replicas, run_id, first, second)
        jobs_at_kill = seen.uids(run_id, "Job")
        other = second if victim is first else first
        other.until(run_id, RunState.RUNNING, timeout_s=END_S)
        wait_for(lambda: len(lab.steps(run_id)) >= 2, timeout_s=START_S)
        uids, steps = lab.uids(run_id), lab.steps(run_id)
        assert other.prime("train", "stop", run_id, "--force").code == 0
        other.until(run_id, RunState.STOPPED, timeout_s=END_S)
        pods_at_stop = lab.pods(run_id)
        other.until_torn_down(run_id)
        nothing_is_left(other, run_id, RunState.STOPPED)

    assert pods_at_stop == []
    jobs = seen.uids(run_id, "Job")
    assert [len(found) for found in jobs.values()] == [1] * len(GROUPS), jobs
    assert jobs_at_kill.items() <= jobs.items()
    assert seen.groups(run_id) == GROUPS
    assert set(uids.values()) == {one["metadata"]["uid"] for one in seen.of(run_id, "Pod")}
    assert steps == list(range(1, len(steps) + 1))
    with replicas.store.read() as tx:
        run = runs.get_run(tx, run_id)
    assert run is not None
    assert run.attempt == lab.record(run_id).attempt == 1
    the_bill_is_right(replicas, run_id, seen)
    assert locks() == []


def killed_in_up(replicas: Replicas, run_id: str, *planes: Plane) -> Plane:
    """Kill the host that has a run once the first Job is made and its `up` goes on; return it."""
    lab = replicas.lab

    def is_begun() -> Plane | None:
        if not lab.api.list("Job", labels={"paddock.dev/run": run_id}):
            return None
        return next((one for one in planes if is_in_up(one, run_id)), None)

    victim = wait_for(is_begun, timeout_s=START_S)
    assert victim is not None
    is_owner = replicas.is_of(victim, run_id)
    kill_host(victim)
    assert is_owner
    assert locks(run_id), "the engine was done before it was killed"
    return victim


def intervals(replicas: Replicas, run_id: str) -> list[UsageInterval]:
    """Return the usage of a run as it is stored."""
    with replicas.store.read() as tx:
        return usage.list_intervals(tx, run_id)


def the_bill_is_right(replicas: Replicas, run_id: str, seen: Sightings) -> None:
    """See that each pod with GPUs was billed from its real start to its real end, and once."""
    found = {one.source: one for one in intervals(replicas, run_id)}
    real = gpu_times(seen.of(run_id, "Pod"))
    with replicas.store.read() as tx:
        run, charged = runs.get_run(tx, run_id), wallets.charged_microusd(tx, run_id)
    assert run is not None
    assert run.ended_at is not None
    assert len(real) == 2
    assert {uid: (one.num_gpus, one.started_at) for uid, one in found.items()} == {
        uid: (one.num_gpus, one.began) for uid, one in real.items()
    }
    hours = 0.0
    for uid, one in found.items():
        assert one.ended_at is not None
        assert one.ended_at == real[uid].ended, (one, real[uid])
        hours += one.num_gpus * (one.ended_at - one.started_at).total_seconds() / 3600
    assert abs(charged - hours * PRICE_USD * 1e6) <= 1
