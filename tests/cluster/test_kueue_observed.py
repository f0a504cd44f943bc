"""Kueue's conditions, written through a real API, become states of a run.

The CRD of Workloads lies beside the project where there is one; its controller is played by the
test, which writes what Kueue would.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.kubernetes_api import KINDS
from runtime.states import RunState
from tests.cluster.kueue import FILES
from tests.cluster.observed_runs import Observed, ObservedRun, connect, observe, says
from tests.runtime.observe_kubernetes.manifests import Condition, written
from tests.testbed.cluster import Cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

CRD = FILES["Workload"]
WORKLOAD = KINDS["Workload"]


@pytest.fixture(scope="module")
def observed(cluster: Cluster) -> Iterator[Observed]:
    """Yield an observed namespace of a cluster that has Kueue's Workloads."""
    name = cluster.make_namespace("kueue")
    api = connect(cluster.kubeconfig, name)
    is_there = api.serves(WORKLOAD.version, WORKLOAD.name)
    if not is_there and not CRD.exists():
        cluster.delete_namespace(name)
        pytest.skip(f"the cluster has no Kueue, and there is no {CRD}")
    if not is_there:
        cluster.kubectl("apply", "--server-side", "--filename", str(CRD))
        wait_for(lambda: api.serves(WORKLOAD.version, WORKLOAD.name))
    api.close()
    with observe(cluster, name) as made:
        yield made
    cluster.delete_namespace(name)
    if not is_there:
        cluster.kubectl("delete", "--ignore-not-found", "--filename", str(CRD))


def queue(observed: Observed, run_id: str) -> ObservedRun:
    """Return a run whose one Job is suspended, with the Workload that Kueue would make."""
    run = ObservedRun(site=observed, run_id=run_id)
    run.begin()
    job = run.job("trainer", says("completed"))
    job["spec"]["suspend"] = True
    made = observed.api.create("Job", job)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": made["metadata"]["name"],
        "uid": made["metadata"]["uid"],
    }
    workload = {
        "apiVersion": WORKLOAD.version,
        "kind": "Workload",
        "metadata": {"name": f"job-{run_id}", "ownerReferences": [owner]},
        "spec": {"queueName": "gpus", "podSets": [pod_set(job)]},
    }
    observed.api.create("Workload", workload)
    return run


def pod_set(job: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "count": 1, "template": job["spec"]["template"]}


def say(run: ObservedRun, *conditions: Condition) -> None:
    """Write conditions into the run's Workload."""
    patch = {"status": {"conditions": written(conditions)}}
    run.site.api.patch("Workload", f"job-{run.run_id}", patch, subresource="status")


RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue all")


def test_a_run_waits_in_the_queue_until_it_gets_its_quota(observed: Observed):
    run = queue(observed, "waits-for-quota")

    say(run, ("QuotaReserved", "False", "WaitingForQuota", "8 more GPUs needed"))
    wait_for(lambda: "Kueue in gpus: WaitingForQuota: 8 more" in run.record().reason)
    assert run.record().state is RunState.QUEUED

    say(run, RESERVED)
    assert "Kueue waits" in run.wait(RunState.PENDING).reason


@pytest.mark.parametrize(
    ("run_id", "reason", "message"),
    [
        ("far-too-big", "ExceedsMaxQuota", "64 > 32 nvidia.com/gpu"),
        ("no-such-queue", "Misconfigured", "LocalQueue gpus does not exist"),
        ("no-queue-of-old", "Inadmissible", "LocalQueue gpus doesn't exist"),
    ],
)
def test_what_can_never_run_fails_at_once(
    observed: Observed, run_id: str, reason: str, message: str
):
    run = queue(observed, run_id)

    say(run, ("QuotaReserved", "False", reason, message))

    assert run.wait(RunState.FAILED).reason == f"Kueue: {reason}: {message}"


def test_a_preempted_run_is_queued_as_a_new_attempt_and_its_jobs_go(observed: Observed):
    run = queue(observed, "preempted")
    say(run, RESERVED, ("Admitted", "True", "Admitted", "The workload is admitted"))
    run.wait(RunState.PENDING)

    say(
        run,
        ("QuotaReserved", "False", "Pending", "Preempted"),
        ("Admitted", "False", "NoReservation", "Preempted"),
        ("Evicted", "True", "Preempted", "Preempted to accommodate a workload"),
        ("Preempted", "True", "InClusterQueue", "by a workload of higher priority"),
    )

    wait_for(lambda: run.record().attempt == 2)
    record = run.record()
    assert record.state is RunState.QUEUED
    assert record.reason == "preempted (Preempted): by a workload of higher priority"
    assert [(one.state, one.attempt) for one in record.times][-1] == (RunState.QUEUED, 2)
    wait_for(lambda: observed.api.get("Job", "preempted-1-trainer-0") is None)
