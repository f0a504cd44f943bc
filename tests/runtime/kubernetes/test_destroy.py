"""How a run ends on Kubernetes, against an API that fails on demand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime import kubernetes_run, run_rules
from runtime.kubernetes_kinds import GANG_VERSIONS
from runtime.kubernetes_record import ClusterRecord
from runtime.kubernetes_run import TeardownUnreachableError
from runtime.kubernetes_teardown import TeardownStuckError
from runtime.run_record import RunRecord
from runtime.states import RunState, Teardown
from tests.runtime.kubernetes.fake_api import BREAK, FakeApi
from tests.runtime.kubernetes.placed_runs import (
    CORE,
    INPUTS,
    JOBS,
    NAMESPACE,
    RECORD,
    owned,
    put_objects,
    read,
)

pytestmark = pytest.mark.usefixtures("placing")


def test_destroy_ends_workloads_before_the_rest_and_keeps_the_record(
    fake: FakeApi, record: ClusterRecord
) -> None:
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    put_objects(fake, run_id="run-two")
    fake.put(f"{CORE}/persistentvolumeclaims/runs", {})

    run_rules.destroy_run(INPUTS)

    deleted = [one.path for one in fake.requests if one.method == "DELETE"]
    assert deleted == [
        f"{JOBS}/run-one-1-trainer",
        f"{CORE}/pods/run-one-1-trainer-x",
        f"{CORE}/configmaps/run-one-1-launch",
        f"{CORE}/secrets/run-one-1-env",
    ]
    assert not [path for path in fake.paths("run-one") if path != RECORD]
    assert len(fake.paths("run-two")) == 4
    assert {NAMESPACE, f"{CORE}/persistentvolumeclaims/runs"} <= set(fake.paths())
    found = read(record)
    assert (found.state, found.teardown) == (RunState.STOPPED, Teardown.DONE)
    assert found.reason == "destroyed while live"


@pytest.mark.parametrize("version", GANG_VERSIONS)
def test_destroy_removes_the_gang_in_the_version_that_the_cluster_serves(
    fake: FakeApi, version: str
) -> None:
    run_rules.place_attempt(INPUTS)
    fake.absent.discard("podgroups")
    fake.absent |= {f"{one}/namespaces" for one in GANG_VERSIONS if one != version}
    group = f"/apis/{version}/namespaces/lab/podgroups/run-one-1"
    fake.put(group, {"apiVersion": version, **owned()})

    run_rules.destroy_run(INPUTS)

    assert group not in fake.paths()


def test_what_an_up_beside_a_stop_has_made_goes_by_a_last_look(
    fake: FakeApi, record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_rules.place_attempt(INPUTS)
    advance = ClusterRecord.advance

    def make_and_advance(self: ClusterRecord, state: RunState, **facts: Any) -> RunRecord:  # noqa: ANN401 - as they are
        put_objects(fake)
        return advance(self, state, **facts)

    monkeypatch.setattr(ClusterRecord, "advance", make_and_advance)

    run_rules.end_attempt(INPUTS, reason="stopped by hand")

    assert read(record).state is RunState.STOPPED
    assert not [path for path in fake.paths("run-one") if path.startswith(JOBS) or "/pods/" in path]


def test_destroy_may_be_repeated(fake: FakeApi, record: ClusterRecord) -> None:
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    run_rules.destroy_run(INPUTS)
    before = read(record)

    run_rules.destroy_run(INPUTS)

    assert read(record).times == before.times


def test_destroy_without_a_record_bars_the_attempt(fake: FakeApi, record: ClusterRecord) -> None:
    put_objects(fake)

    run_rules.destroy_run(INPUTS)

    assert read(record).state is RunState.STOPPED
    assert "is over (STOPPED)" in str(run_rules.refusal({}, INPUTS))


def test_destroy_after_the_namespace_went_is_done(fake: FakeApi) -> None:
    gone = "namespaces lab not found"
    fake.on_change = lambda method, path: (
        fake.fail("POST", CORE, 404, reason="NotFound", message=gone) if method == "GET" else None
    )

    run_rules.destroy_run(INPUTS)

    assert RECORD not in fake.paths()


def terminated(component: str, role: str, **end: object) -> dict:
    message = json.dumps({"component": component, "reason": "", "exit_code": 0, **end})
    state = {"exitCode": end.get("exit_code", 0), "message": message, "reason": "Completed"}
    pod = owned()
    pod["metadata"]["labels"] |= {
        "paddock.dev/replicated-job": role,
        "paddock.dev/job-index": "0",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    return {
        **pod,
        "spec": {"nodeName": "n0", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": state}}],
        },
    }


def put_ended(fake: FakeApi, **trainer: object) -> None:
    roles = {"trainer-0-0": "trainer", "orchestrator-0-0": "orchestrator"}
    pods = {key: {"component": role, "role": role} for key, role in roles.items()}
    launch = json.dumps({"run_id": "run-one", "attempt": 1, "pods": pods})
    fake.put(f"{CORE}/configmaps/run-one-1-launch", {**owned(), "data": {"launch.json": launch}})
    end = {"outcome": "completed", **trainer}
    fake.put(f"{CORE}/pods/t", terminated("trainer", "trainer", **end))
    done = {"outcome": "completed", "end_mark": True}
    fake.put(f"{CORE}/pods/o", terminated("orchestrator", "orchestrator", **done))


def test_destroy_keeps_how_an_unwatched_run_ended(fake: FakeApi, record: ClusterRecord) -> None:
    run_rules.place_attempt(INPUTS)
    put_ended(fake)

    run_rules.destroy_run(INPUTS)

    assert (read(record).state, read(record).teardown) == (RunState.COMPLETED, Teardown.DONE)


def test_destroy_keeps_why_an_unwatched_run_failed(fake: FakeApi, record: ClusterRecord) -> None:
    run_rules.place_attempt(INPUTS)
    put_ended(fake, outcome="failed", exit_code=3, reason="exited with code 3")

    run_rules.destroy_run(INPUTS)

    assert read(record).state is RunState.FAILED
    assert "exited with code 3" in read(record).reason
    assert "trainer" in read(record).reason


def test_a_stuck_finalizer_is_named_and_left(
    fake: FakeApi, record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kubernetes_run.SLACK_VARIABLE, "0.1")
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    held = f"{CORE}/pods/run-one-1-held"
    fake.put(held, owned(finalizers=["example.org/hold"]))

    with pytest.raises(TeardownStuckError) as caught:
        run_rules.destroy_run(INPUTS)

    assert "Pod run-one-1-held (finalizers: example.org/hold)" in str(caught.value)
    assert fake.objects[held]["metadata"]["finalizers"] == ["example.org/hold"]
    assert f"{CORE}/secrets/run-one-1-env" in fake.paths()
    assert not read(record).is_over
    assert read(record).teardown is Teardown.STUCK

    del fake.objects[held]
    run_rules.destroy_run(INPUTS)
    assert (read(record).state, read(record).teardown) == (RunState.STOPPED, Teardown.DONE)


def test_a_pod_on_a_dead_node_is_given_up_and_no_other(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.kubernetes_teardown._DEAD_NODE_S", 0.0)
    monkeypatch.setenv(kubernetes_run.SLACK_VARIABLE, "0.5")
    for node, ready in (("dead", "Unknown"), ("live", "True")):
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        fake.put(f"/api/v1/nodes/{node}", {"status": status})
        leaving = owned(deletionTimestamp="2026-11-30T10:00:00Z", deletionGracePeriodSeconds=0)
        pod = {**leaving, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0}}
        fake.put(f"{CORE}/pods/on-{node}", pod)

    with pytest.raises(TeardownStuckError, match="Pod on-live on node live"):
        run_rules.destroy_run(INPUTS)

    forced = [one for one in fake.requests if one.method == "DELETE"]
    assert [one.path for one in forced] == [f"{CORE}/pods/on-dead"]
    assert forced[0].body["gracePeriodSeconds"] == 0


def test_a_pod_that_pulls_its_image_is_said_to_go_after_that(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kubernetes_run.SLACK_VARIABLE, "0.1")
    fake.put("/api/v1/nodes/n0", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    leaving = owned(deletionTimestamp="2026-11-30T10:00:00Z", deletionGracePeriodSeconds=0)
    spec = {"nodeName": "n0", "terminationGracePeriodSeconds": 0}
    pulling = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    pod = {**leaving, "spec": spec, "status": {"containerStatuses": [pulling]}}
    fake.put(f"{CORE}/pods/on-n0", pod)

    with pytest.raises(TeardownStuckError, match=r"kubelet lets a pull of its image end first"):
        run_rules.destroy_run(INPUTS)


def test_an_outage_in_a_destroy_is_ridden_out(
    fake: FakeApi, record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kubernetes_run.PATIENCE_VARIABLE, "30")
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    fake.fail("DELETE", JOBS, 503, times=9)

    run_rules.destroy_run(INPUTS)

    assert fake.paths("run-one") == [RECORD]
    assert read(record).teardown is Teardown.DONE


def test_a_cluster_that_stays_away_is_noted_and_a_later_destroy_goes_on(
    fake: FakeApi, record: ClusterRecord, tmp_path: Path
) -> None:
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    fake.fail("DELETE", JOBS, BREAK, times=1000)
    note = tmp_path / "home" / "unreachable" / "run-one.json"

    with pytest.raises(TeardownUnreachableError, match="teardown=unreachable"):
        run_rules.destroy_run(INPUTS)
    facts = json.loads(note.read_text())
    fake.faults.clear()
    run_rules.destroy_run(INPUTS)

    assert (facts["runId"], facts["context"]) == ("run-one", "fake")
    assert not note.exists()
    assert read(record).teardown is Teardown.DONE


def test_the_end_of_an_attempt_leaves_later_ones_and_the_rest(
    fake: FakeApi, record: ClusterRecord
) -> None:
    run_rules.place_attempt(INPUTS)
    put_objects(fake)
    put_objects(fake, attempt=2)

    run_rules.end_attempt(INPUTS, reason="ended for attempt 2")

    assert not fake.paths("pods/run-one-1")
    assert not fake.paths("jobs/run-one-1")
    assert f"{CORE}/secrets/run-one-1-env" in fake.paths()
    assert len(fake.paths("run-one-2")) == 4
    assert (read(record).state, read(record).reason) == (RunState.STOPPED, "ended for attempt 2")


def test_a_kind_that_the_run_made_must_be_seen(fake: FakeApi) -> None:
    denial: Callable = lambda method, path: (  # noqa: E731 - one answer
        fake.fail("GET", "nodepools", 403, reason="Forbidden", message="no")
        if "pods" in path
        else None
    )
    fake.on_change = denial
    run_rules.destroy_run(INPUTS)

    with pytest.raises(Exception, match=r"not allowed to list nodepools\.karpenter\.sh"):
        run_rules.destroy_run({**INPUTS, "kinds": ["NodePool"]})
