"""Many runs at once: their objects made from the templates, on nodes that kwok plays.

`paddock reconcile` observes them as a process of its own, so that its memory can be told.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from infra.k8s.manifests import run_manifests
from infra.k8s.placed import PlacedRun
from runtime import pod_names
from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord, record_of
from runtime.run_record import RunRecord
from tests.cluster.run_files import demo
from tests.cluster.sites import open_api
from tests.infra.k8s.placing import TAINT, everything, placed_text, profile
from tests.testbed import volumes
from tests.testbed.cluster import Testbed
from tests.testbed.kwok import KEEP_RUNNING
from tests.testbed.layout import CONTEXT
from tests.waiting import wait_for

POOL = "tests.paddock.dev/fleet"
PADDOCK = str(Path(sys.executable).with_name("paddock"))
NUM_WRITERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """A namespace with many runs, and the process that observes them.

    `control_plane` is the id of the one whose runs they are, None of runs by hand.
    """

    api: KubernetesApi
    namespace: str
    observer: "subprocess.Popen[bytes]"
    run_ids: list[str] = field(default_factory=list)
    control_plane: str | None = None

    @property
    def profile(self) -> ClusterProfile:
        """Return the cluster as the runs' plans see it."""
        return _cluster(self.namespace)

    def start(self, number: int) -> None:
        """Make the objects of so many more runs, as a run's stack does."""
        first = len(self.run_ids)
        self.run_ids.extend(f"fleet-{index:03}" for index in range(first, first + number))
        with ThreadPoolExecutor(NUM_WRITERS) as pool:
            list(pool.map(self._start, self.run_ids[first:]))

    def _start(self, run_id: str) -> None:
        over = {"profile": self.profile, "control_plane": self.control_plane}
        run = placed_text(demo(), run_id=run_id, **over)
        ClusterRecord(self.api, run_id).begin_attempt(config_digest="d", attempt=1)
        self.api.create("Secret", _secret(run))
        for manifest in everything(run_manifests(run)):
            if manifest["kind"] == "Job":
                template = manifest["spec"]["template"]
                template["metadata"]["annotations"] |= KEEP_RUNNING
                template["spec"]["nodeSelector"] = {POOL: self.namespace}
            self.api.create(manifest["kind"], manifest)

    def records(self) -> dict[str, RunRecord]:
        """Return the record of every run."""
        listed = self.api.list("ConfigMap", labels={pod_names.LABEL_RECORD: "true"})
        records = [record for one in listed if (record := record_of(one)) is not None]
        return {record.run_id: record for record in records}

    def pods(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return every pod by its run and its replicated job."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for pod in self.api.list("Pod"):
            labels = pod["metadata"]["labels"]
            group = labels[pod_names.LABEL_REPLICATED_JOB]
            found.setdefault(labels["paddock.dev/run"], {})[group] = pod
        return found

    def complete(self, pods: dict[str, dict[str, Any]]) -> float:
        """Let trainer and orchestrator of a run end well; return when the last of them had."""
        for group in ("trainer", "orchestrator"):
            self._end(pods[group], end_mark=group == "orchestrator")
        return time.time()

    def _end(self, pod: dict[str, Any], *, end_mark: bool) -> None:
        word = {"outcome": "completed", "reason": "", "exit_code": 0, "end_mark": end_mark}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        end = {"exitCode": 0, "finishedAt": now, "startedAt": now, "message": json.dumps(word)}
        (container,) = pod["status"]["containerStatuses"]
        ended = {**container, "ready": False, "state": {"terminated": end}}
        status = {"phase": "Succeeded", "containerStatuses": [ended]}
        name = pod["metadata"]["name"]
        self.api.patch("Pod", name, {"status": status}, subresource="status")

    def stir(self) -> int:
        """Change every pod once; return how many there are."""
        names = [pod["metadata"]["name"] for one in self.pods().values() for pod in one.values()]
        stamp = {"metadata": {"annotations": {"tests.paddock.dev/stirred": str(time.time())}}}
        with ThreadPoolExecutor(NUM_WRITERS) as pool:
            list(pool.map(lambda name: self.api.patch("Pod", name, stamp), names))
        return len(names)

    def memory_mib(self) -> float:
        """Return the memory of the observer."""
        status = Path(f"/proc/{self.observer.pid}/status").read_text()
        (line,) = [one for one in status.splitlines() if one.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


@contextmanager
def open_fleet(testbed: Testbed, folder: Path, num_nodes: int) -> Iterator[Fleet]:
    """Yield a namespace that `paddock reconcile` observes, and add the nodes of its runs."""
    namespace = testbed.make_namespace("fleet")
    try:
        for claim in ("runs", "models"):
            testbed.apply(_claim(testbed, namespace, claim))
        testbed.add_kwok_nodes(num_nodes, labels={POOL: namespace})
        with closing(open_api(testbed, CONTEXT, namespace)) as api:
            with (folder / "reconcile.log").open("wb") as log:
                observer = _reconcile(testbed, folder, namespace, log.fileno())
            try:
                yield Fleet(api=api, namespace=namespace, observer=observer)
            finally:
                observer.kill()
                observer.wait()
    finally:
        _remove(testbed, namespace)


def _remove(testbed: Testbed, namespace: str) -> None:
    """Remove the fleet; what is ended one by one takes minutes where there are a thousand."""
    # Jobs first: a pod that is tracked by a Job stays until the Job has counted it or is gone.
    for path in ("apis/batch/v1", "api/v1"):
        kind = "jobs" if path.startswith("apis") else "pods"
        query = "propagationPolicy=Background&gracePeriodSeconds=0"
        delete = ("delete", "--raw", f"/{path}/namespaces/{namespace}/{kind}?{query}")
        # where there are thousands it ends after a minute with some of them left
        wait_for(partial(_is_done, testbed, delete), timeout_s=600)
    testbed.kubectl("delete", "namespace", namespace, "--wait=false")
    wait_for(lambda: not testbed.get("pods", "-n", namespace)["items"], timeout_s=300)
    testbed.kubectl("delete", "nodes", "--wait=false", "--selector", f"{POOL}={namespace}")


def _is_done(testbed: Testbed, command: Sequence[str]) -> bool:
    return testbed.try_kubectl(*command).returncode == 0


def _reconcile(
    testbed: Testbed, folder: Path, namespace: str, log: int
) -> "subprocess.Popen[bytes]":
    (folder / "stacks").mkdir()
    (folder / "Pulumi.yaml").write_text("name: paddock\nruntime: python\n")
    settings = {"kind": "cluster", "target": "kubernetes", "context": CONTEXT}
    config = {f"paddock:{key}": value for key, value in settings.items()}
    config["paddock:namespace"] = namespace
    (folder / "stacks" / "Pulumi.lab.yaml").write_text(yaml.safe_dump({"config": config}))
    environment = {**os.environ, "KUBECONFIG": str(testbed.kubeconfig)}
    environment["PADDOCK_HOME"] = str(folder / "home")
    return subprocess.Popen(
        [PADDOCK, "reconcile", "--cluster", "lab"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )


def _cluster(namespace: str) -> ClusterProfile:
    offer = GpuOffer(
        name="H200_141GB",
        num_nodes=64,
        gpus_per_node=8,
        price_usd_per_hour=3.5,
        node_selector={POOL: namespace},
        tolerations=(TAINT,),
        cpu_per_node=192.0,
        memory_gib_per_node=2048.0,
    )
    connection = KubernetesConnection(context=CONTEXT, namespace=namespace)
    return profile(connection=connection, gpus=(offer,))


def _secret(run: PlacedRun) -> dict[str, Any]:
    name = pod_names.secret_name(run.plan.run_id, run.plan.attempt)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": run.metadata(name)}


def _claim(testbed: Testbed, namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "storageClassName": volumes.SHARED,
            "volumeName": testbed.add_volume(),
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
