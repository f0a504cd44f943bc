"""The queue of `paddock serve` by headroom, on real pods: on the node there is room for one run.

Every run asks for more than half of the GPUs of the one real node, so what is free is what the pods
of the run before leave, whoever else has some of the others.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from runtime.control.store import events
from runtime.control.store.store import open_store
from runtime.control.values import Event
from runtime.observe.kubernetes.headroom import gpus_of
from runtime.states import RunState
from tests.cluster.labs import OFFER, STACK
from tests.cluster.planes import END_S, LOOK_S, Plane, nothing_is_left, open_plane, write_toml
from tests.cluster.run_files import endless_demo
from tests.cluster.runs import GPU, START_S
from tests.runtime.control.operating.served import dispatch, read_run
from tests.testbed.cluster import Testbed
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.cluster

NUM_GPUS = 17
OF_ONE_NODE = {**OFFER, "cpu_per_node": 2.0, "memory_gib_per_node": 5.0}
NOTED_S = 120.0
NUM_LOOKS = 15
PROMOTION_S = 60.0
"""Ten are promised, and measured on a machine that does nothing else."""

NEEDS = rf"needs {NUM_GPUS} {GPU}( on one node)?: \d+ of \d+ {GPU} are free on {STACK}"
BEHIND = f"waits behind earlier runs for {NUM_GPUS} {GPU}"


@pytest.fixture
def plane(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Yield a server of one node, and a user."""
    folder = tmp_path_factory.mktemp("queue")
    with open_plane(testbed, folder, gpuOffers=json.dumps([OF_ONE_NODE])) as made:
        yield made


def test_a_run_waits_for_the_pods_before_it_to_leave_the_node_and_is_promoted_in_its_turn(
    plane: Plane,
) -> None:
    toml = write_toml(plane, "wide.toml", wide_demo())
    first, second, third = (dispatch(plane.prime, toml, "--gpu-type", GPU) for _ in range(3))
    wait_for(lambda: plane.lab.phases(first) == ["Running"] * 4, timeout_s=START_S)

    until_queued(plane, second, NEEDS, num_ahead=0)
    until_queued(plane, third, BEHIND, num_ahead=1)
    clients_show(plane, second, NEEDS, num_ahead=0)
    clients_show(plane, third, BEHIND, num_ahead=1)
    for _ in range(NUM_LOOKS):
        time.sleep(LOOK_S)
        assert held_gpus(plane) == {first: NUM_GPUS}
        assert {read_run(plane.prime, one)["status"] for one in (second, third)} == {"QUEUED"}
    held_at = stopped(plane, first)
    wait_for(lambda: read_run(plane.prime, second)["status"] != "QUEUED", timeout_s=NOTED_S)
    until_queued(plane, third, NEEDS, num_ahead=0)
    promoted, end = promotion(plane, second), end_of(plane, first)
    waited_s = promoted.time.timestamp() - held_at
    since_end_s = (promoted.time - end.time).total_seconds()
    print(f"promoted {waited_s:.2f} s after GPUs came free, {since_end_s:.2f} s after STOPPED")
    pods_came = wait_for(lambda: held_gpus(plane), timeout_s=START_S)
    stopped(plane, third)
    stopped(plane, second)
    for run_id in (first, second, third):
        plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
        plane.until_torn_down(run_id)

    assert waited_s < PROMOTION_S
    assert promotion(plane, first).event_id < end.event_id < promoted.event_id
    assert promoted.message == f"promoted to {GPU} on {STACK}"
    assert pods_came.keys() == {second}
    assert [one.kind for one in history(plane, third) if one.kind == "queue"] == []
    assert plane.found("usage", third)["gpu_hours"] == 0
    nothing_is_left(plane, first, RunState.STOPPED)
    assert [plane.lab.left(one) for one in (second, third)] == [[], []]


def wide_demo() -> str:
    """Return a run of small steps that holds more than half of the node."""
    text = endless_demo()
    wide = f"gpus_per_node = {OF_ONE_NODE['gpus_per_node']}\nnum_train_gpus = {NUM_GPUS - 1}"
    assert "num_train_gpus = 1\nnum_infer_gpus = 1\n" in text
    return text.replace("num_train_gpus = 1", wide)


def until_queued(plane: Plane, run_id: str, words: str, *, num_ahead: int) -> None:
    """Wait until a run is QUEUED for a reason, behind so many others, and holds nothing."""

    def is_queued() -> bool:
        time.sleep(LOOK_S)
        run = read_run(plane.prime, run_id)
        assert run["status"] == "QUEUED", "".join(plane.served.lines[-40:])
        is_it = re.fullmatch(words, run["queueReason"] or "") is not None
        return is_it and run["runsAhead"] == num_ahead

    wait_for(is_queued, timeout_s=NOTED_S)
    assert plane.lab.left(run_id) == []


def clients_show(plane: Plane, run_id: str, words: str, *, num_ahead: int) -> None:
    """See that both clients tell a run's place in the queue, and why it waits."""
    shown = json.loads(plane.prime("train", "get", run_id, "-o", "json").out)["run"]
    theirs = plane.prime("train", "get", run_id).out
    ours = plane.paddock("train", "get", run_id).out
    assert (shown["status"], shown["runs_ahead"]) == ("QUEUED", num_ahead)
    assert re.fullmatch(words, shown["queue_reason"])
    assert f"QUEUED (~{num_ahead} runs ahead)" in theirs
    assert f"QUEUED ({num_ahead} runs ahead)" in ours
    assert re.search(words, ours)


def held_gpus(plane: Plane) -> dict[str, int]:
    """Return how many GPUs the pods of each run hold, ended ones not counted."""
    held: dict[str, int] = {}
    for pod in plane.lab.api.list("Pod", labels="paddock.dev/run"):
        num_gpus = gpus_of(pod)
        if num_gpus and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            run_id = pod["metadata"]["labels"]["paddock.dev/run"]
            held[run_id] = held.get(run_id, 0) + num_gpus
    return held


def stopped(plane: Plane, run_id: str) -> float:
    """Stop a run by the user's client, and return when its pods held GPUs for the last time."""
    held_at = time.time()

    def is_free() -> bool:
        nonlocal held_at
        asked_at = time.time()
        if run_id not in held_gpus(plane):
            return True
        held_at = asked_at
        return False

    with plane.prime.start("train", "stop", run_id, "--force") as stop, killed_after(stop, END_S):
        wait_for(is_free, timeout_s=END_S)
        said, _ = stop.communicate()
    assert stop.returncode == 0, said
    return held_at


def history(plane: Plane, run_id: str) -> list[Event]:
    """Return what the server wrote of a run."""
    url = f"sqlite:///{plane.lab.site.home / 'control.db'}"
    with closing(open_store(url)) as store, store.read() as tx:
        return events.list_events(tx, run_id)


def promotion(plane: Plane, run_id: str) -> Event:
    """Return when a run left the queue."""
    [found] = [one for one in history(plane, run_id) if one.kind == "queue"]
    return found


def end_of(plane: Plane, run_id: str) -> Event:
    """Return when a run was said to be stopped."""
    [found] = [one for one in history(plane, run_id) if one.state is RunState.STOPPED]
    return found
