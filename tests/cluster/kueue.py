"""Kueue and JobSet without their controllers: their CRDs, and one that writes what they would.

The CRDs lie beside the project where there are any. Kueue's part is a Workload's conditions and
`suspend`; JobSet's is the Service and the Jobs of a JobSet, whose pods the cluster really makes.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.kubernetes_api import KINDS, KubernetesApi, KubernetesError, Manifest
from tests.runtime.observe_kubernetes.manifests import Condition, written
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

CRDS = Path(__file__).resolve().parents[3] / "shared" / "reference" / "crds"
FILES = {
    "LocalQueue": CRDS / "kueue.x-k8s.io_localqueues.yaml",
    "Workload": CRDS / "kueue.x-k8s.io_workloads.yaml",
    "JobSet": CRDS / "jobset.x-k8s.io_jobsets.yaml",
}
QUEUE, CLUSTER_QUEUE = "gpus", "all"

ADMITTED: tuple[Condition, ...] = (
    ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue all"),
    ("Admitted", "True", "Admitted", "The workload is admitted"),
)
PREEMPTED: tuple[Condition, ...] = (
    ("QuotaReserved", "False", "Pending", "Preempted"),
    ("Admitted", "False", "NoReservation", "Preempted"),
    ("Evicted", "True", "Preempted", "Preempted to accommodate a workload"),
    ("Preempted", "True", "InClusterQueue", "by a workload of higher priority"),
)
"""In the order in which Kueue has them; source: Kueue 0.19, as in its Workloads."""

_LABEL = "jobset.sigs.k8s.io"


@contextmanager
def kueue_served(testbed: Testbed) -> Iterator[None]:
    """Have the cluster serve the kinds of Kueue and JobSet within the block; skip without CRDs."""
    if not all(file.exists() for file in FILES.values()):
        pytest.skip(f"no CRDs of Kueue and JobSet in {CRDS}")
    for file in FILES.values():
        testbed.kubectl("apply", "--server-side", "--filename", str(file))
    try:
        wait_for(lambda: all(_is_served(testbed, kind) for kind in FILES))
        yield
    finally:
        for file in FILES.values():
            testbed.kubectl("delete", "--ignore-not-found", "--filename", str(file))


def _is_served(testbed: Testbed, kind: str) -> bool:
    found = testbed.try_kubectl("get", "--raw", f"/apis/{KINDS[kind].version}")
    return f'"{KINDS[kind].plural}"' in found.stdout


def local_queue(namespace: str) -> dict[str, Any]:
    """Return the LocalQueue of a namespace's runs."""
    return {
        "apiVersion": KINDS["LocalQueue"].version,
        "kind": "LocalQueue",
        "metadata": {"name": QUEUE, "namespace": namespace},
        "spec": {"clusterQueue": CLUSTER_QUEUE},
    }


def workload_of(owner: Manifest) -> dict[str, Any]:
    """Return the Workload that Kueue makes for a JobSet."""
    container = {"name": "main", "image": "any"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    metadata = {"name": _workload_name(owner), "ownerReferences": [_owned_by(owner)]}
    return {
        "apiVersion": KINDS["Workload"].version,
        "kind": "Workload",
        "metadata": metadata | {"namespace": owner["metadata"]["namespace"]},
        "spec": {
            "queueName": QUEUE,
            "podSets": [{"name": "trainer", "count": 1, "template": template}],
        },
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedKueue:
    """Plays both controllers in the namespace of an API."""

    api: KubernetesApi

    def take(self, name: str, *, timeout_s: float = 120.0) -> Manifest:
        """Wait for a JobSet, suspend it, give it a Workload, and return it as it was made."""
        made = wait_for(lambda: self.api.get("JobSet", name), timeout_s=timeout_s)
        assert made is not None
        self.api.patch("JobSet", name, {"spec": {"suspend": True}})
        self.api.create("Workload", workload_of(made))
        return made

    def say(self, name: str, *conditions: Condition) -> None:
        """Write the conditions of a JobSet's Workload, in the place of those that it had."""
        patch = {"status": {"conditions": written(conditions)}}
        self.api.patch("Workload", f"jobset-{name}", patch, subresource="status")

    def admit(self, name: str) -> None:
        """Give a JobSet its quota, and make what it is of."""
        self.say(name, *ADMITTED)
        made = self.api.patch("JobSet", name, {"spec": {"suspend": False}})
        self.api.create("Service", _service(made))
        for job in _jobs(made):
            self.api.create("Job", job)

    def preempt(self, name: str) -> None:
        """Take a JobSet's quota away; its Jobs are suspended, which ends their pods.

        Whoever deletes them in the meantime is not hindered.
        """
        jobs = self.api.list("Job", labels={f"{_LABEL}/jobset-name": name})
        self.say(name, *PREEMPTED)
        for kind, one in [("JobSet", name), *(("Job", job["metadata"]["name"]) for job in jobs)]:
            try:
                self.api.patch(kind, one, {"spec": {"suspend": True}})
            except KubernetesError as error:
                if error.status != 404:
                    raise


def _service(job_set: Manifest) -> Manifest:
    """Return the Service by which the pods of a JobSet have names; it has none of our labels."""
    name, network = job_set["metadata"]["name"], job_set["spec"]["network"]
    return {
        "metadata": {"name": network["subdomain"], "ownerReferences": [_owned_by(job_set)]},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": network["publishNotReadyAddresses"],
            "selector": {f"{_LABEL}/jobset-name": name},
        },
    }


def _jobs(job_set: Manifest) -> Iterator[Manifest]:
    """Yield the Jobs of a JobSet, with the labels that JobSet adds to Jobs and pods."""
    name = job_set["metadata"]["name"]
    for group in job_set["spec"]["replicatedJobs"]:
        for index in range(group["replicas"]):
            labels = {
                f"{_LABEL}/jobset-name": name,
                f"{_LABEL}/replicatedjob-name": group["name"],
                f"{_LABEL}/job-index": str(index),
            }
            template = copy.deepcopy(group["template"])
            template["metadata"]["labels"] |= labels
            template["spec"]["template"]["metadata"]["labels"] |= labels
            template["metadata"] |= {
                "name": f"{name}-{group['name']}-{index}",
                "ownerReferences": [_owned_by(job_set)],
            }
            yield template


def _workload_name(job_set: Manifest) -> str:
    return f"jobset-{job_set['metadata']['name']}"


def _owned_by(job_set: Manifest) -> dict[str, Any]:
    return {
        "apiVersion": KINDS["JobSet"].version,
        "kind": "JobSet",
        "name": job_set["metadata"]["name"],
        "uid": job_set["metadata"]["uid"],
        "controller": True,
    }
