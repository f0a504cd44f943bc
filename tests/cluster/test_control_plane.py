"""`paddock serve` with a cluster of real pods: dispatched, read, stopped and torn down by `prime`.

The runs are in a namespace of their own, since a server shows every run of the clusters it serves.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.states import RunState
from tests.cluster.canaries import in_object, value_is_nowhere
from tests.cluster.labs import STACK
from tests.cluster.planes import (
    END_S,
    ENV,
    LOOK_S,
    Plane,
    nothing_is_left,
    open_plane,
    write_toml,
)
from tests.cluster.registries import serve_silent_registry
from tests.cluster.run_files import endless_demo, small_demo
from tests.cluster.runs import GPU, START_S, claim_folder
from tests.runtime.control.operating.served import dispatch, read_run, state_of
from tests.testbed.cluster import Testbed
from tests.testbed.volumes import SHARED
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.cluster

KEY, CANARY = "CANARY_TOKEN", "canary-5be0c2f7-value"
VOLUME = "kept"
VOLUME_S = 180.0
NUM_STEPS = 8
NUM_LOOKS = 25


@pytest.fixture(scope="module")
def plane(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Yield a server with its own home, backend and namespace, and a user."""
    with open_plane(testbed, tmp_path_factory.mktemp("control-plane")) as made:
        yield made


def test_a_run_completes_and_reads_the_same_after_its_teardown(plane: Plane) -> None:
    toml = write_toml(plane, "small.toml", small_demo(max_steps=NUM_STEPS))
    run_id = dispatch(plane.prime, toml, "--gpu-type", GPU)

    plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
    live, live_env = plane.live_logs(run_id)
    components = plane.prime("train", "components", run_id)
    plane.until(run_id, RunState.COMPLETED, timeout_s=END_S)
    plane.until_torn_down(run_id)

    after = plane.logs(run_id)
    assert after[: len(live)] == live
    assert "Orchestrator finished" in after[-1]
    assert plane.logs(run_id, "--env", ENV)[: len(live_env)] == live_env
    assert ENV in components.out
    rows = json.loads(plane.prime("train", "metrics", run_id).out)["metrics"]
    assert {row["step"] for row in rows if "reward/mean" in row} == set(range(1, NUM_STEPS + 1))
    nothing_is_left(plane, run_id, RunState.COMPLETED)


def test_a_stopped_run_has_no_pods_and_its_secret_is_nowhere(plane: Plane) -> None:
    lab = plane.lab
    toml = write_toml(plane, "long.toml", endless_demo())
    words = ("train", str(toml), "--gpu-type", GPU, "-e", KEY, "-o", "json")
    run_id = json.loads(plane.paddock(*words, **{KEY: CANARY}).out)["run"]["runId"]

    plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
    live, live_env = plane.live_logs(run_id)
    assert state_of(plane.prime, run_id) == "RUNNING"
    secrets = lab.testbed.get("secrets", "--namespace", lab.namespace)["items"]
    holding = [one["metadata"]["name"] for one in secrets if in_object(one, CANARY)]
    value_is_nowhere(plane, CANARY)
    stopped = plane.prime("train", "stop", run_id, "--force")
    plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
    pods_at_stop = lab.pods(run_id)
    plane.until_torn_down(run_id)

    assert holding == [f"{run_id}-1-env"]
    assert stopped.code == 0, stopped.out + stopped.err
    assert pods_at_stop == []
    assert plane.logs(run_id)[: len(live)] == live
    assert plane.logs(run_id, "--env", ENV)[: len(live_env)] == live_env
    nothing_is_left(plane, run_id, RunState.STOPPED)
    value_is_nowhere(plane, CANARY)


def test_a_run_is_stopped_while_its_image_is_pulled(plane: Plane) -> None:
    lab, toml = plane.lab, write_toml(plane, "pulled.toml", endless_demo())
    with serve_silent_registry() as answer:
        run_id = dispatch(plane.prime, toml, "--gpu-type", GPU, "--image-tag", "no-such-tag")
        plane.until(run_id, RunState.PULLING_IMAGE, timeout_s=START_S)
        pods = lab.uids(run_id)
        with plane.prime.start("train", "stop", run_id, "--force") as stop, killed_after(stop, 300):
            wait_for(lambda: all(is_going(one) for one in lab.pods(run_id)))
            # kubelet lets no pull be cut off: github.com/kubernetes/kubernetes/issues/113606
            stays_unstopped(plane, run_id)
            assert lab.uids(run_id) == pods
            answer()
            plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
            pods_at_stop = lab.pods(run_id)
            said, _ = stop.communicate()
    plane.until_torn_down(run_id)

    assert len(pods) == 4
    assert pods_at_stop == []
    assert (stop.returncode, "stopped successfully" in said) == (0, True), said
    assert lab.left(run_id) == []
    assert lab.record(run_id).state is RunState.STOPPED
    assert plane.found("usage", run_id)["gpu_hours"] == 0


def is_going(pod: dict[str, Any]) -> bool:
    """Tell whether a pod's deletion was asked for."""
    return "deletionTimestamp" in pod["metadata"]


def stays_unstopped(plane: Plane, run_id: str) -> None:
    """See that a server says nothing of an end for some passes."""
    for _ in range(NUM_LOOKS):
        time.sleep(LOOK_S)
        assert read_run(plane.prime, run_id)["status"] == "PULLING_IMAGE"


def test_a_volume_outlives_its_run_grows_as_its_class_allows_and_is_deleted(plane: Plane) -> None:
    lab = plane.lab
    lab.testbed.add_volume(SHARED)
    made = plane.prime("volumes", "create", VOLUME, "--size", "1Gi", "--cluster", STACK)
    assert made.code == 0, made.out + made.err
    wait_for(lambda: volume_of(plane)["status"] == "RUNNING", timeout_s=VOLUME_S)
    claim = volume_of(plane)["pvcName"]
    toml = write_toml(plane, "kept.toml", small_demo(max_steps=4, interval=2))
    run_id = dispatch(plane.prime, toml, "--gpu-type", GPU, "--volume", VOLUME)
    busy = plane.prime("volumes", "delete", VOLUME, "-y")
    the_volume_cannot_grow(plane)
    plane.until(run_id, RunState.COMPLETED, timeout_s=END_S)
    plane.until_torn_down(run_id)

    folder = claim_folder(lab.testbed, lab.namespace, claim) / "runs" / run_id
    pruned = lab.site.paddock("runs", "prune", "--older-than", "0h", "-o", "json")
    assert {one.name for one in (folder / "checkpoints").iterdir()} >= {"step_2", "step_4"}
    assert run_id not in pruned.out
    assert f"is used by {run_id}" in busy.out
    nothing_is_left(plane, run_id, RunState.COMPLETED)
    assert claim in claims(plane)

    assert plane.prime("volumes", "delete", VOLUME, "-y").code == 0
    wait_for(lambda: volume_of(plane) == {}, timeout_s=VOLUME_S)
    assert claim not in claims(plane)
    assert claim not in lab.site.pulumi("stack", "ls").out
    the_run_reads_as_before(plane, run_id)


def the_volume_cannot_grow(plane: Plane) -> None:
    """See that a class which grows no claims is named, and that its volume stays as it was."""
    assert plane.prime("volumes", "expand", VOLUME, "--size", "2Gi").code == 0
    assert volume_of(plane)["status"] in {"PENDING", "RUNNING"}
    wait_for(lambda: volume_of(plane)["reason"], timeout_s=VOLUME_S)
    volume = volume_of(plane)
    assert (volume["status"], volume["size"]) == ("RUNNING", "1Gi")
    assert f"claim {volume['pvcName']} stays at 1Gi" in volume["reason"]
    assert volume["reason"].endswith("the storageclass that provisions the pvc must support resize")


def the_run_reads_as_before(plane: Plane, run_id: str) -> None:
    """Read a run whose volume is gone from what was captured of it."""
    assert "Orchestrator finished" in plane.logs(run_id)[-1]
    kept = json.loads(plane.prime("train", "checkpoints", run_id, "-o", "json").out)
    assert [one["step"] for one in kept["checkpoints"]] == [2, 4]
    rows = json.loads(plane.prime("train", "metrics", run_id).out)["metrics"]
    assert {row["step"] for row in rows if "reward/mean" in row} == {1, 2, 3, 4}


def claims(plane: Plane) -> list[str]:
    """Return the names of the namespace's claims."""
    found = plane.lab.testbed.get("pvc", "--namespace", plane.lab.namespace)["items"]
    return [one["metadata"]["name"] for one in found]


def volume_of(plane: Plane) -> dict[str, Any]:
    """Return the volume as the user sees it, nothing where there is none."""
    found = json.loads(plane.paddock("volumes", "list", "-o", "json").out)
    return next((one for one in found if one["name"] == VOLUME), {})
