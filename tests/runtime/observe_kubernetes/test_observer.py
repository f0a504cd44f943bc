"""An observer writes what follows from what is seen, once, and lets go of what does not end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.look import Look
from runtime.observe.kubernetes.observer import RunObserver, RunView
from runtime.run_record import RunRecord
from runtime.states import RunState
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.observe_kubernetes import manifests
from tests.runtime.observe_kubernetes.run_volume import RunVolume

CORE, BATCH = "/api/v1/namespaces/lab", "/apis/batch/v1/namespaces/lab"
POD, JOB = f"{CORE}/pods/run-one-1-trainer-0-0-x", f"{BATCH}/jobs/run-one-1-trainer-0"
LOG = "run-one/logs/attempt_1/trainer.log"
LAUNCH = {
    "run_id": "run-one",
    "attempt": 1,
    "max_steps": 10,
    "pods": {"trainer-0-0": {"component": "trainer-0", "role": "trainer", "log": "trainer.log"}},
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeApi, Any]]:
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01, 0.01, 0.01))
    with serve_fake_api(tmp_path) as (fake, api, _):
        fake.put(JOB, manifests.job("run-one"))
        fake.put(POD, manifests.pod("run-one"))
        launch = {"data": {"launch.json": json.dumps(LAUNCH)}}
        fake.put(f"{CORE}/configmaps/run-one-1-launch", launch)
        ClusterRecord(api, "run-one").begin_attempt(config_digest="d", attempt=1)
        yield fake, api


def settle(api: KubernetesApi, volume: RunVolume | None = None) -> RunView:
    view = RunObserver(api, Look(api, "run-one"), volume or RunVolume()).settle("run-one")
    assert view is not None
    return view


def stored(api: KubernetesApi) -> RunRecord:
    found = ClusterRecord(api, "run-one").read()
    assert found is not None
    return found


def ended(code: int, **word: object) -> dict[str, Any]:
    """Return the status of a pod whose main container has ended."""
    state = {"exitCode": code, "finishedAt": "2026-12-01T10:05:00Z"}
    if word:
        state["message"] = json.dumps(word)
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "main", "state": {"terminated": state}}],
    }


def test_a_run_whose_pods_run_is_written_as_running(fake: tuple[FakeApi, KubernetesApi]):
    _, api = fake

    assert settle(api).record.state is RunState.RUNNING
    assert stored(api).state is RunState.RUNNING
    assert settle(api).record.version == stored(api).version


def test_a_failure_keeps_the_last_lines_of_the_log(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    volume = RunVolume()
    volume.files[LOG] = b"".join(b"line %d\n" % number for number in range(80))
    word = {"outcome": "failed", "reason": "was killed by SIGKILL", "signal": "SIGKILL"}
    served.put(POD, manifests.pod("run-one", **ended(137, **word)))

    record = settle(api, volume).record

    assert record.state is RunState.FAILED
    assert "trainer-0 (pod run-one-1-trainer-0-0-x on n0) was killed by SIGKILL" in record.reason
    assert record.exit is not None
    assert record.exit.component == "trainer-0"
    assert record.exit.last_lines == tuple(f"line {number}" for number in range(30, 80))


def test_without_a_file_server_the_api_tells_the_last_lines(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    volume = RunVolume()
    volume.is_away = True
    served.streams[f"{POD}/log"] = [b"first\nsec", b"ond\n"]
    served.put(POD, manifests.pod("run-one", **ended(2)))

    record = settle(api, volume).record

    assert record.exit is not None
    assert record.exit.exit_code == 2
    assert record.exit.last_lines == ("first", "second")


def test_a_second_observer_changes_nothing(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    served.put(POD, manifests.pod("run-one", **ended(2)))
    sight = Look(api, "run-one")
    first = RunObserver(api, sight, RunVolume()).settle("run-one")
    second = RunObserver(api, sight, RunVolume()).settle("run-one")

    assert first is not None
    assert second is not None
    assert first.record == second.record == stored(api)


def test_what_a_run_waits_for_is_written(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    homeless = manifests.pod("run-one", phase="Pending", containerStatuses=[])
    homeless["spec"].pop("nodeName")
    homeless["status"]["conditions"] = [{"type": "PodScheduled", "message": "0/4 nodes"}]
    served.put(POD, homeless)

    view = settle(api)

    assert view.record.state is RunState.PENDING
    assert view.record.reason == "1 of 1 pods wait for a node; trainer-0: 0/4 nodes"
    homeless["status"]["conditions"][0]["message"] = "0/5 nodes"
    served.put(POD, homeless)
    assert settle(api).record.reason.endswith("0/5 nodes")
    assert len(stored(api).times) == 2


def test_a_pod_that_never_started_is_let_go_when_the_run_fails(
    fake: tuple[FakeApi, KubernetesApi],
):
    served, api = fake
    waiting = {"waiting": {"reason": "InvalidImageName", "message": "no name"}}
    stuck = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]}
    served.put(POD, manifests.pod("run-one", **stuck))

    assert settle(api).record.state is RunState.FAILED
    assert JOB not in served.paths()


def test_a_pod_that_runs_is_left_to_end_by_itself(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    ClusterRecord(api, "run-one").advance(RunState.FAILED, attempt=1, reason="another failed")

    settle(api)

    assert JOB in served.paths()


def test_a_pod_whose_container_has_just_ended_keeps_its_job(
    fake: tuple[FakeApi, KubernetesApi],
):
    served, api = fake
    ClusterRecord(api, "run-one").advance(RunState.FAILED, attempt=1, reason="another failed")
    served.put(POD, manifests.pod("run-one", **ended(0) | {"phase": "Running"}))

    settle(api)

    assert JOB in served.paths()


def test_a_preempted_run_is_queued_as_its_next_attempt(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    settle(api)
    workload = manifests.workload("run-one-1-trainer-0")
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "by two"}
    workload["status"]["conditions"] = [evicted]
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/workloads/jobset-run-one"
    served.put(path, workload)

    record = settle(api).record

    assert (record.state, record.attempt) == (RunState.QUEUED, 2)
    assert record.reason == "preempted (Preempted): by two"
    assert JOB not in served.paths()
    assert [(one.state, one.attempt) for one in record.times] == [
        (RunState.QUEUED, 1),
        (RunState.RUNNING, 1),
        (RunState.QUEUED, 2),
    ]


def test_sockets_on_a_plan_with_rdma_are_a_warning(fake: tuple[FakeApi, KubernetesApi]):
    served, api = fake
    volume = RunVolume()
    volume.files[LOG] = b"n:1:2 [0] NCCL INFO Using network Socket\n"
    pod = manifests.pod("run-one")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"rdma/ib": "8"}}
    served.put(POD, pod)
    settle(api, volume)

    record = settle(api, volume).record

    assert record.state is RunState.RUNNING
    assert len(record.warnings) == 1
    assert record.warnings[0].startswith("TRANSPORT_DEGRADED: NCCL of trainer-0 uses Socket")
    assert settle(api, volume).record.warnings == record.warnings


def test_an_orchestrator_s_silent_end_waits_for_the_file_server(
    fake: tuple[FakeApi, KubernetesApi],
):
    served, api = fake
    launch = json.loads(json.dumps(LAUNCH).replace('"trainer"', '"orchestrator"'))
    data = {"launch.json": json.dumps(launch)}
    served.put(f"{CORE}/configmaps/run-one-1-launch", {"data": data})
    volume = RunVolume()
    volume.files["run-one/metrics.jsonl"] = b'{"step": 3}\n{"step": 7}\nnot json\n'
    served.put(POD, manifests.pod("run-one", **ended(0, outcome="completed", reason="exited")))

    record = settle(api, volume).record

    assert record.state is RunState.FAILED
    assert "exited, at step 7 of 10 and without its end mark" in record.reason
