"""Runs of two small pods on a real cluster, with a reconciler that observes their namespace.

Their Jobs carry what the target's templates carry for an observer: labels, an index, a termination
message. What the pods do is a line of Python.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runtime import naming, pod_names
from runtime.cluster import KubernetesConnection
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.observer import RunObserver
from runtime.observe.kubernetes.reconciler import Reconciler
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.kubernetes.watch import RunWatch, open_watch
from runtime.run_record import RunRecord
from runtime.states import RunState
from tests.testbed.cluster import Cluster
from tests.testbed.kwok import KWOK
from tests.waiting import wait_for

IMAGE = "primeintellect/prime-rl:main"
REAL_NODE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": [KWOK]}]}
            ]
        }
    }
}
"""Nodes of kwok that another test has run nothing."""

SLEEP = "import time; print('here I am', flush=True); time.sleep(3600)"


def says(outcome: str, *, code: int = 0, end_mark: bool = False) -> str:
    """Return a program that ends as a wrapper does, with its verdict for kubelet."""
    word = {"outcome": outcome, "reason": f"exited with code {code}", "end_mark": end_mark}
    return (
        f"import sys; open('/dev/termination-log', 'w').write({json.dumps(word)!r}); "
        f"print('last words', flush=True); sys.exit({code})"
    )


@dataclass(kw_only=True)
class Observed:
    """A namespace that a reconciler observes; `said` is what it said."""

    api: KubernetesApi
    cluster: Cluster
    watch: RunWatch
    said: list[str] = field(default_factory=list)

    def start(self, run_id: str, **programs: str) -> "ObservedRun":
        """Start a run whose orchestrator and trainer run these programs, or sleep."""
        run = ObservedRun(site=self, run_id=run_id)
        run.begin()
        for role in (naming.ORCHESTRATOR, naming.TRAINER):
            self.api.create("Job", run.job(role, programs.get(role, SLEEP)))
        return run


@dataclass(kw_only=True)
class ObservedRun:
    """One run."""

    site: Observed
    run_id: str

    def begin(self) -> None:
        """Open its record and say what is launched."""
        record = ClusterRecord(self.site.api, self.run_id)
        record.begin_attempt(config_digest="d", attempt=1)
        pods = {
            f"{role}-0-0": {"component": name, "role": role, "log": f"{role}.log"}
            for role, name in (("orchestrator", "orchestrator"), ("trainer", "trainer-0"))
        }
        launch = {"run_id": self.run_id, "attempt": 1, "max_steps": 2, "pods": pods}
        self.site.api.create(
            "ConfigMap",
            {
                "metadata": {
                    "name": pod_names.config_map_name(self.run_id, 1),
                    "labels": naming.run_labels(self.run_id, 1, "run"),
                },
                "data": {"launch.json": json.dumps(launch)},
            },
        )

    def job(self, role: str, program: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Return the Job of one component; `spec` changes its pods."""
        labels = naming.run_labels(self.run_id, 1, role) | {
            pod_names.LABEL_REPLICATED_JOB: role,
            pod_names.LABEL_JOB_INDEX: "0",
        }
        container = {
            "name": "main",
            "image": spec.pop("image", IMAGE),
            "command": ["python3", "-c", program],
            "resources": spec.pop("resources", {}),
        }
        notes = spec.pop("annotations", {})
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
            **({} if "nodeSelector" in spec else {"affinity": REAL_NODE}),
            **spec,
        }
        return {
            "metadata": {"name": f"{self.run_id}-1-{role}-0", "labels": labels},
            "spec": {
                "completions": 1,
                "parallelism": 1,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": pod},
            },
        }

    def record(self) -> RunRecord:
        """Return the record as it is stored."""
        found = ClusterRecord(self.site.api, self.run_id).read()
        assert found is not None
        return found

    def wait(self, state: RunState, *, timeout_s: float = 90) -> RunRecord:
        """Wait until the record is in a state and return it."""
        wait_for(lambda: self.record().state is state, timeout_s=timeout_s)
        return self.record()

    def pod(self, role: str) -> str:
        """Return the name of a component's pod."""
        labels = {naming.LABEL_RUN: self.run_id, pod_names.LABEL_REPLICATED_JOB: role}
        (found,) = self.site.api.list("Pod", labels=labels)
        return str(found["metadata"]["name"])

    def num_live_pods(self) -> int:
        """Return how many of its pods have not ended."""
        pods = self.site.api.list("Pod", labels={naming.LABEL_RUN: self.run_id})
        return sum(pod["status"]["phase"] in {"Pending", "Running"} for pod in pods)


def connect(kubeconfig: Path, namespace: str) -> KubernetesApi:
    """Return the API behind a kubeconfig's current context."""
    import yaml

    context = str(yaml.safe_load(kubeconfig.read_text())["current-context"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig))
        connection = KubernetesConnection(context=context, namespace=namespace)
        return KubernetesApi.connect(connection)


@contextmanager
def observe(
    cluster: Cluster, namespace: str, *, kubeconfig: Path | None = None
) -> Iterator[Observed]:
    """Yield a namespace that is observed; the observer may have a kubeconfig of its own."""
    ended = threading.Event()
    with (
        closing(connect(cluster.kubeconfig, namespace)) as api,
        closing(connect(kubeconfig or cluster.kubeconfig, namespace)) as eyes,
        open_watch(eyes) as watch,
    ):
        made = Observed(api=api, cluster=cluster, watch=watch)
        observer = RunObserver(eyes, watch, RunFiles(eyes))
        reconciler = Reconciler(watch, observer, made.said.append)
        thread = threading.Thread(
            target=lambda: reconciler.run(interval_s=1.0, is_over=ended.is_set)
        )
        thread.start()
        try:
            yield made
        finally:
            ended.set()
            thread.join(30)
