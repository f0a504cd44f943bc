"""Runs in real pods: a lab whose model cache holds the tiny model, and what tests do to a run.

Run directories are folders of this machine, so a test reads metrics and checkpoints directly.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runtime import homes, models
from runtime.control.dispatch import new_run_stack, new_stack
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.look import Look
from runtime.observe.kubernetes.observer import RunObserver
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.rl.tiny_model import ensure_tiny_model
from runtime.run_record import RunRecord
from runtime.states import RunState
from tests.cluster.labs import IMAGE, STACK, Lab, files_pod, wait_for_one_open_node
from tests.cluster.sites import open_api
from tests.engine.sites import Result, Site, make_site
from tests.runtime.launch_pods.local_pods import hub_cache
from tests.testbed.cluster import Testbed
from tests.testbed.kwok import TAINT
from tests.testbed.layout import CONTEXT, NODE
from tests.testbed.volumes import SHARED
from tests.waiting import wait_for

OWNED = ("jobs", "pods", "services", "configmaps", "secrets")
GPU, NODES_GPU, SMALL_GPU, POOL_GPU = "H200_141GB", "H100_80GB", "A100_80GB", "B200_180GB"
"""Types of the one real node, for runs of one node, of several, and with next to no memory; the
last is of the nodes with the label POOL, which a test adds."""

POOL = "tests.paddock.dev/runs-pool"

START_S = 300.0
"""Until a run is RUNNING: its programs load torch on two cores, 20 to 60 s."""


def offers() -> list[dict[str, Any]]:
    """Return what the lab offers; the shapes let the pods of a run fit on two cores."""
    common = {"price_usd_per_hour": 1.0, "node_selector": {"kubernetes.io/hostname": NODE}}
    return [
        {**common, **_shape(GPU, cpus=4.0, memory_gib=5.0)},
        {
            **common,
            **_shape(NODES_GPU, cpus=0.4, memory_gib=4.0),
            "rdma_resource": "rdma/ib",
            "rdma_per_node": 8,
        },
        {**common, **_shape(SMALL_GPU, cpus=4.0, memory_gib=0.25)},
        {
            **_shape(POOL_GPU, cpus=4.0, memory_gib=5.0),
            "price_usd_per_hour": 1.0,
            "node_selector": {POOL: "true"},
            "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
        },
    ]


def _shape(name: str, *, cpus: float, memory_gib: float) -> dict[str, Any]:
    return {
        "name": name,
        "num_nodes": 4,
        "gpus_per_node": 8,
        "cpu_per_node": cpus,
        "memory_gib_per_node": memory_gib,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """A site with a cluster stack, the namespace of its runs, and the folder of their volume."""

    site: Site
    testbed: Testbed
    api: KubernetesApi
    namespace: str
    volume: Path

    def new(self, run_id: str, text: str, **settings: object) -> None:
        """Make a run's stack, as `paddock stack new` does."""
        self.write(run_id, text)
        found = {"cluster": STACK, "config": f"{run_id}.toml", "gpuType": GPU, **settings}
        new_run_stack(self.site.project, run_id, found, secrets={})

    def write(self, run_id: str, text: str) -> None:
        """Write a run's TOML."""
        (self.site.project.path / f"{run_id}.toml").write_text(text)

    def up(self, run_id: str, text: str, **settings: object) -> str:
        """Make a run's stack, bring it up, and return what that printed."""
        self.new(run_id, text, **settings)
        return self.site.pulumi("up", "-s", run_id).text

    def wait(self, run_id: str, *, timeout_s: float) -> Result:
        """Follow a run to its end with `paddock wait`."""
        with self.site.start("paddock", "wait", run_id) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"{run_id}: not over in {timeout_s} s\n{out}{err}") from None
        return Result(code=process.returncode, out=out, err=err)

    def record(self, run_id: str) -> RunRecord:
        """Return a run's record as it is stored."""
        found = ClusterRecord(self.api, run_id).read()
        assert found is not None
        return found

    def settle(self, run_id: str) -> RunRecord:
        """Look at a run once, write what follows, and return the record."""
        view = RunObserver(self.api, Look(self.api, run_id), RunFiles(self.api)).settle(run_id)
        assert view is not None
        return view.record

    def until(self, run_id: str, state: RunState, *, timeout_s: float = START_S) -> RunRecord:
        """Wait until a run is in a state; one that is over before is an error."""

        def there() -> RunRecord | None:
            record = self.settle(run_id)
            assert record.state is state or not record.is_over, f"{record.state}: {record.reason}"
            return record if record.state is state else None

        found = wait_for(there, timeout_s=timeout_s)
        assert found is not None
        return found

    def until_step(self, run_id: str, step: int, *, timeout_s: float = START_S) -> None:
        """Wait until a run has trained so many steps."""
        self.until(run_id, RunState.RUNNING)
        wait_for(lambda: len(self.rewards(run_id)) >= step, timeout_s=timeout_s)

    def folder(self, run_id: str) -> Path:
        """Return a run's directory."""
        return self.volume / "runs" / run_id

    def rewards(self, run_id: str) -> list[float]:
        """Return the mean reward of each step so far, those of a repeated step too."""
        return [row["reward/mean"] for row in self._rows(run_id)]

    def steps(self, run_id: str) -> list[int]:
        """Return the number of each step so far, those of every attempt."""
        return [row["step"] for row in self._rows(run_id)]

    def _rows(self, run_id: str) -> list[dict[str, Any]]:
        path = self.folder(run_id) / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return [row for row in rows if "reward/mean" in row]

    def pods(self, run_id: str) -> list[dict[str, Any]]:
        """Return the pods of a run."""
        return self.api.list("Pod", labels={"paddock.dev/run": run_id})

    def pod(self, run_id: str, group: str) -> str:
        """Return the name of the one pod of a replicated job."""
        labels = {"paddock.dev/run": run_id, "paddock.dev/replicated-job": group}
        (found,) = self.api.list("Pod", labels=labels)
        return str(found["metadata"]["name"])

    def phases(self, run_id: str) -> list[str]:
        """Return the phase of each pod of a run."""
        return [one["status"].get("phase", "") for one in self.pods(run_id)]

    def uids(self, run_id: str) -> dict[str, str]:
        """Return the uid of each pod of a run."""
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in self.pods(run_id)}

    def is_released(self, run_id: str) -> bool:
        """Tell whether no pod of a run holds a GPU any more."""
        return not [one for one in self.phases(run_id) if one not in {"Succeeded", "Failed"}]

    def left(self, run_id: str) -> list[str]:
        """Return the objects that carry a run's label, without its record."""
        selector = ("--selector", f"paddock.dev/run={run_id},!paddock.dev/record")
        found = self.testbed.get(",".join(OWNED), "--namespace", self.namespace, *selector)
        return [f"{one['kind']} {one['metadata']['name']}" for one in found["items"]]

    def destroy(self, run_id: str) -> None:
        """Destroy a run's stack and see that nothing is left of it."""
        self.site.pulumi("destroy", "-s", run_id)
        assert self.left(run_id) == []

    def execute(self, pod: str, program: str) -> str:
        """Run a line of Python in a pod's container and return what it printed, "" if it failed."""
        command = ("exec", pod, "--container", "main", "--namespace", self.namespace)
        result = self.testbed.try_kubectl(*command, "--", "python3", "-c", program)
        return result.stdout.strip()

    def kill_component(self, run_id: str, group: str) -> None:
        """SIGKILL the component of a pod, the wrapper's child, inside its container."""
        pod = self.pod(run_id, group)
        assert wait_for(lambda: self.execute(pod, KILL), timeout_s=120)

    def words(self, run_id: str) -> str:
        """Return what is known of a run, for a failed assertion."""
        logs = sorted((self.folder(run_id) / "logs").rglob("*.log"))
        tails = [f"--- {one.name}\n{one.read_text(errors='replace')[-1500:]}" for one in logs]
        return "\n".join([str(self.record(run_id)), *tails])


KILL = """
import os, signal, pathlib
for entry in pathlib.Path("/proc").iterdir():
    try:
        parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        continue
    if entry.name.isdigit() and parent == "1":
        os.kill(int(entry.name), signal.SIGKILL)
        print("killed", entry.name)
"""
"""Prints what it killed: nothing where the wrapper has not started its component yet."""


@contextmanager
def open_runs(
    testbed: Testbed,
    folder: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    **more: object,
) -> Iterator[Runs]:
    """Yield a lab whose cluster stack is up; all runs of it are destroyed by their tests.

    `environment` is for all that is typed or served there, `more` are the stack's settings.
    """
    wait_for_one_open_node(testbed)
    for _ in range(2):
        testbed.add_volume(SHARED)
    namespace = f"runs-{os.urandom(4).hex()}"
    # a registry that answers would give a digest which the node does not have
    offline = {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
    kubeconfig = {"KUBECONFIG": str(testbed.kubeconfig)}
    site = make_site(folder, extra={**kubeconfig, **offline, **environment})
    settings = {
        "kind": "cluster",
        "target": "kubernetes",
        "context": CONTEXT,
        "namespace": namespace,
        "storageClass": SHARED,
        "modelsVolumeSize": "1Gi",
        "models": json.dumps([models.TINY_MODEL]),
        "toolsImage": IMAGE,
        "gpuTypes": json.dumps([GPU]),
        "gpuOffers": json.dumps(offers()),
        "processesPerNode": 1,
        **more,
    }
    new_stack(site.project, STACK, settings)
    try:
        site.pulumi("up", "-s", STACK)
        cache = claim_folder(testbed, namespace, "paddock-models")
        hub_cache(cache / "hf", models.TINY_MODEL, ensure_tiny_model(homes.cache_path()))
        subprocess.run(["chmod", "-R", "a+rwX", str(cache)], check=True)
        api = open_api(testbed, CONTEXT, namespace)
        volume = claim_folder(testbed, namespace, "paddock-runs")
        made = Runs(site=site, testbed=testbed, api=api, namespace=namespace, volume=volume)
        files_pod(Lab(site=site, testbed=testbed, namespace=namespace))
        yield made
        api.close()
        site.pulumi("destroy", "-s", STACK)
    finally:
        site.kill_everything()
        testbed.kubectl("delete", "jobs", "--all", "--wait=false", "--namespace", namespace)
        testbed.delete_namespace(namespace)


def claim_folder(testbed: Testbed, namespace: str, claim: str) -> Path:
    """Return the folder of this machine that a claim's volume is."""
    target = ("pvc", claim, "--namespace", namespace)
    name = wait_for(lambda: testbed.get(*target)["spec"].get("volumeName"))
    return Path(testbed.get("pv", name)["spec"]["hostPath"]["path"])
