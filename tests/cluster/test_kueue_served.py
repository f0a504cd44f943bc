"""A cluster with Kueue under `paddock serve`: Kueue queues its runs, and the server says so.

The controllers of Kueue and JobSet are played (`tests.cluster.kueue`); server, stacks, API, kubelet
and pods are real.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.naming import LABEL_ATTEMPT
from runtime.pod_names import workload_name
from runtime.states import RunState
from tests.cluster.kueue import CLUSTER_QUEUE, QUEUE, PlayedKueue, kueue_served
from tests.cluster.planes import END_S, Plane, nothing_is_left, open_plane, write_toml
from tests.cluster.run_files import endless_demo, small_demo
from tests.cluster.runs import GPU, START_S
from tests.cluster.test_failures import saved_steps
from tests.runtime.control.operating.served import dispatch, read_run
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

WAITS = "couldn't assign flavors to pod set trainer: 8 more needed"
NOTED_S = 120.0


@pytest.fixture(scope="module")
def plane(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Yield a server of one cluster, whose runs Kueue admits, and a user."""
    queue = {"queue": QUEUE, "clusterQueue": CLUSTER_QUEUE}
    with (
        kueue_served(testbed),
        open_plane(testbed, tmp_path_factory.mktemp("kueue"), **queue) as made,
    ):
        yield made


@pytest.fixture
def kueue(plane: Plane) -> PlayedKueue:
    """Return who plays Kueue where the runs are."""
    return PlayedKueue(api=plane.lab.api)


def test_kueue_gets_every_run_at_once_and_its_words_are_shown(
    plane: Plane, kueue: PlayedKueue
) -> None:
    lab, toml = plane.lab, write_toml(plane, "waits.toml", endless_demo())
    first, second = (dispatch(plane.prime, toml, "--gpu-type", GPU) for _ in range(2))

    for run_id in (first, second):  # the second while the first waits
        kueue.take(workload_name(run_id, 1))
        say_wait(kueue, run_id, attempt=1)
        until_kueues_words(plane, run_id)
        assert lab.pods(run_id) == []
    stopped = plane.prime("train", "stop", first, "--force")
    plane.until(first, RunState.STOPPED, timeout_s=END_S)
    kueue.admit(workload_name(second, 1))
    wait_for(lambda: read_run(plane.prime, second)["status"] != "QUEUED", timeout_s=NOTED_S)
    plane.prime("train", "stop", second, "--force")
    plane.until(second, RunState.STOPPED, timeout_s=END_S)

    assert stopped.code == 0, stopped.out + stopped.err
    for run_id in (first, second):
        assert lab.pods(run_id) == []
        plane.until_torn_down(run_id)
        nothing_of_kueue_is_left(plane, run_id)
    assert plane.found("usage", first)["gpu_hours"] == 0


def test_a_preempted_run_goes_on_from_its_checkpoint_once_it_is_admitted_again(
    plane: Plane, kueue: PlayedKueue
) -> None:
    lab = plane.lab
    text = small_demo(max_steps=5000, lr="5e-9", interval=2)
    run_id = dispatch(plane.prime, write_toml(plane, "goes-on.toml", text), "--gpu-type", GPU)
    kueue.take(workload_name(run_id, 1))
    kueue.admit(workload_name(run_id, 1))
    plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
    wait_for(lambda: saved_steps(lab.folder(run_id)), timeout_s=START_S)
    before, version = lab.api.list_with_version("Pod", labels={"paddock.dev/run": run_id})

    kueue.preempt(workload_name(run_id, 1))
    made = kueue.take(workload_name(run_id, 2))
    say_wait(kueue, run_id, attempt=2)
    until_kueues_words(plane, run_id)
    saved = max(saved_steps(lab.folder(run_id)))
    done = len(lab.steps(run_id))
    gone = revisions_of_the_end(plane, run_id, version, {name_of(pod) for pod in before})
    kueue.admit(workload_name(run_id, 2))
    plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
    wait_for(lambda: len(lab.steps(run_id)) > done, timeout_s=START_S)

    assert len(before) == 4
    assert max(gone.values()) < int(made["metadata"]["resourceVersion"]), "before the new are made"
    assert lab.steps(run_id)[done] == saved + 1
    assert {pod["metadata"]["labels"][LABEL_ATTEMPT] for pod in lab.pods(run_id)} == {"2"}
    the_record_tells_of_the_preemption(plane, run_id)
    stopped = plane.prime("train", "stop", run_id, "--force")
    plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
    assert lab.pods(run_id) == []
    assert stopped.code == 0, stopped.out + stopped.err
    plane.until_torn_down(run_id)
    nothing_is_left(plane, run_id, RunState.STOPPED)
    nothing_of_kueue_is_left(plane, run_id)


def name_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def say_wait(kueue: PlayedKueue, run_id: str, *, attempt: int) -> None:
    """Write that an attempt waits for quota."""
    name = workload_name(run_id, attempt)
    kueue.say(name, ("QuotaReserved", "False", "WaitingForQuota", WAITS))


def until_kueues_words(plane: Plane, run_id: str) -> None:
    """Wait until a run is QUEUED in Kueue's words, and see that both clients show them."""
    words = f"Kueue in {QUEUE}: WaitingForQuota: {WAITS}"
    wait_for(lambda: read_run(plane.prime, run_id)["queueReason"] == words, timeout_s=NOTED_S)
    theirs = json.loads(plane.prime("train", "get", run_id, "-o", "json").out)["run"]
    ours = plane.found("get", run_id)["run"]
    for shown in (theirs, ours):
        assert (shown["status"], shown["queue_reason"]) == ("QUEUED", words)
        assert shown["runs_ahead"] is None, "Kueue alone knows what stands before it"
    assert words in plane.paddock("train", "get", run_id).out


def revisions_of_the_end(plane: Plane, run_id: str, version: str, pods: set[str]) -> dict[str, int]:
    """Return at which revision of the cluster each pod was gone."""
    gone: dict[str, int] = {}
    labels = {"paddock.dev/run": run_id}
    for change, pod in plane.lab.api.watch(
        "Pod", resource_version=version, timeout_s=NOTED_S, labels=labels
    ):
        if change == "DELETED":
            gone[name_of(pod)] = int(pod["metadata"]["resourceVersion"])
        if gone.keys() >= pods:
            break
    assert gone.keys() == pods
    return gone


def the_record_tells_of_the_preemption(plane: Plane, run_id: str) -> None:
    """See that the run's own record has the second attempt as no failure, and why it is there."""
    record = plane.lab.record(run_id)
    [queued] = [one for one in record.times if (one.state, one.attempt) == (RunState.QUEUED, 2)]
    assert queued.reason == "preempted (Preempted): by a workload of higher priority"
    assert record.times[record.times.index(queued) - 1].state is RunState.RUNNING
    assert RunState.FAILED not in {one.state for one in record.times}


def nothing_of_kueue_is_left(plane: Plane, run_id: str) -> None:
    """See that no object of a run is left, by label or by name; its record says STOPPED."""
    lab = plane.lab
    selector = ("--selector", f"paddock.dev/run={run_id}", "--namespace", lab.namespace)
    assert lab.left(run_id) == []
    assert lab.testbed.get("jobsets", *selector)["items"] == []
    assert lab.record(run_id).state is RunState.STOPPED

    def collected() -> bool:
        kinds = ("services,workloads.kueue.x-k8s.io", "--namespace", lab.namespace)
        return run_id not in json.dumps(lab.testbed.get(*kinds))

    wait_for(collected, timeout_s=NOTED_S)  # what JobSet and Kueue own goes with the JobSet
