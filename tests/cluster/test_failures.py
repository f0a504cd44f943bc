"""What ends a run too early: each end has its name, its GPUs come free, and nothing is left."""

import time
from pathlib import Path

import pytest

from runtime.states import RunState
from tests.cluster.registries import serve_empty_registry
from tests.cluster.run_files import small_demo
from tests.cluster.runs import POOL_GPU, SMALL_GPU, Runs
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

NOTICED_S = 60.0
FAILED, STOPPED = 1, 2  # exit codes of `paddock wait`
CRASH = "exits-with-two: error: unrecognized arguments"  # said by a taskset of the testbed's image


def test_a_killed_env_server_is_named_and_the_next_attempt_goes_on(runs: Runs) -> None:
    run_id = "run-env"
    runs.up(run_id, small_demo(max_steps=14, interval=3))
    runs.until_step(run_id, 4)
    wait_for(lambda: saved_steps(runs.folder(run_id)), timeout_s=120)
    pod = runs.pod(run_id, "env-train-reverse-text")

    runs.kill_component(run_id, "env-train-reverse-text")

    began = time.monotonic()
    waited = runs.wait(run_id, timeout_s=300)
    took_s = time.monotonic() - began
    record = runs.record(run_id)
    where = f"env-train-reverse-text (source reverse-text, pod {pod} on n0)"
    assert waited.code == FAILED, waited.text
    assert record.reason == f"{where} was killed by SIGKILL"
    assert record.exit is not None
    assert record.exit.last_lines
    assert took_s < NOTICED_S
    wait_for(lambda: runs.is_released(run_id), timeout_s=NOTICED_S)
    saved = max(saved_steps(runs.folder(run_id)))

    runs.site.pulumi("config", "set", "paddock:attempt", "2", "-s", run_id)
    runs.site.pulumi("up", "-s", run_id)
    again = runs.wait(run_id, timeout_s=600)

    assert again.code == 0, again.text + runs.words(run_id)
    assert runs.record(run_id).attempt == 2
    steps = runs.steps(run_id)
    assert set(steps) == set(range(1, 15))
    assert [step for step in steps if step <= saved] == list(range(1, saved + 1))
    runs.destroy(run_id)


def saved_steps(folder: Path) -> list[int]:
    """Return the steps whose checkpoint is whole."""
    found = []
    for step in (folder / "checkpoints").glob("step_*"):
        if all((step / part).is_dir() for part in ("trainer", "orchestrator")):
            found.append(int(step.name.removeprefix("step_")))
    return found


def test_a_child_that_eats_its_memory_is_named(runs: Runs) -> None:
    run_id = "run-hungry"
    runs.up(run_id, small_demo(max_steps=5), gpuType=SMALL_GPU)

    waited = runs.wait(run_id, timeout_s=300)

    assert waited.code == FAILED, waited.text
    reason = runs.record(run_id).reason
    assert "out of memory" in reason or "OOMKilled" in reason
    assert "on n0)" in reason
    wait_for(lambda: runs.is_released(run_id), timeout_s=NOTICED_S)
    runs.destroy(run_id)


def test_an_image_that_does_not_exist_fails_the_run_in_kubelets_words(runs: Runs) -> None:
    run_id = "run-tag"
    with serve_empty_registry():
        runs.up(run_id, small_demo(max_steps=5), imageTag="no-such-tag")
        waited = runs.wait(run_id, timeout_s=300)

    assert waited.code == FAILED, waited.text
    record = runs.record(run_id)
    assert "cannot pull the image primeintellect/prime-rl:no-such-tag" in record.reason
    assert "no-such-tag: not found" in record.reason
    wait_for(lambda: runs.is_released(run_id), timeout_s=NOTICED_S)
    runs.destroy(run_id)


def test_a_run_without_a_node_waits_in_the_schedulers_words_until_it_is_stopped(
    runs: Runs,
) -> None:
    run_id = "run-nowhere"
    runs.up(run_id, small_demo(max_steps=5), gpuType=POOL_GPU)
    runs.until(run_id, RunState.PENDING, timeout_s=60)
    wait_for(lambda: "nodes are available" in runs.settle(run_id).reason)

    stopped = runs.site.paddock("stop", run_id)

    assert f"{run_id} is STOPPED" in stopped.out
    assert runs.pods(run_id) == []
    assert runs.wait(run_id, timeout_s=60).code == STOPPED
    runs.destroy(run_id)


def test_a_component_that_cannot_start_is_run_exactly_once(runs: Runs) -> None:
    run_id = "run-crash"
    text = small_demo(max_steps=5).replace('id = "reverse-text"', 'id = "exits-with-two"')
    runs.up(run_id, text)

    waited = runs.wait(run_id, timeout_s=300)

    assert waited.code == FAILED, waited.text
    record = runs.record(run_id)
    assert "exited with code 2" in record.reason
    assert record.exit is not None
    assert record.exit.exit_code == 2
    assert record.exit.last_lines.count(CRASH) == 1
    wait_for(lambda: runs.is_released(run_id), timeout_s=NOTICED_S)
    pods = runs.pods(run_id)
    uids = {pod["metadata"]["uid"] for pod in pods}
    assert len(uids) == 4
    assert {one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]} == {
        0
    }
    logs = [one.read_text() for one in runs.folder(run_id).rglob("*.log")]
    assert max(text.count(CRASH) for text in logs) == 1
    again = runs.site.pulumi("up", "-s", run_id, expect=None)
    assert again.code != 0
    assert "is over (FAILED)" in again.text
    assert {pod["metadata"]["uid"] for pod in runs.pods(run_id)} == uids
    runs.destroy(run_id)
