"""The cluster that tests run against: a user's own, or the testbed with all that it can do."""

import json
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.errors import SetupError
from tests.testbed import control_plane, kwok, layout, node, volumes
from tests.testbed.daemons import find_daemon, kill_daemon, stop_daemon
from tests.testbed.programs import Programs
from tests.waiting import wait_for

Manifest = Mapping[str, Any]  # on its way to kubectl


class Cluster:
    """A cluster by its kubeconfig, spoken to with kubectl."""

    def __init__(self, *, kubeconfig: Path, kubectl: str = "kubectl") -> None:
        """Keep the paths; nothing is asked of the cluster."""
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl

    def kubectl(self, *arguments: str, stdin: str = "", timeout_s: float = 120.0) -> str:
        """Run kubectl and return its output; raise AssertionError with the error when it fails."""
        result = self.try_kubectl(*arguments, stdin=stdin, timeout_s=timeout_s)
        words = " ".join(arguments[:6])
        assert result.returncode == 0, f"kubectl {words}: {result.stderr.strip()}"
        return result.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str = "", timeout_s: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl to its end, whatever that is."""
        command = [self._kubectl, "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout_s
        )

    def get(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever the API holds
        """Return an object, or a list of them, as `kubectl get ... -o json` shows it."""
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def apply(self, *manifests: Manifest) -> None:
        """Apply objects on the server's side."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        options = ("--server-side", "--force-conflicts", "--filename", "-")
        self.kubectl("apply", *options, stdin=json.dumps(document))

    def delete(self, *manifests: Manifest, wait: bool = True) -> None:
        """Delete objects; one that is gone is no error."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        options = ("--ignore-not-found", f"--wait={str(wait).lower()}", "--filename", "-")
        self.kubectl("delete", *options, stdin=json.dumps(document))

    def make_namespace(self, prefix: str = "test") -> str:
        """Make a namespace of a new name and return the name, once pods can be made in it."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", name)
        account = ("get", "serviceaccount", "default", "--namespace", name)
        wait_for(lambda: self.try_kubectl(*account).returncode == 0)
        return name

    def delete_namespace(self, name: str, *, wait: bool = False) -> None:
        """Delete a namespace with all that is in it, its pods at once."""
        now = ("--grace-period=0", "--force", "--ignore-not-found")
        self.try_kubectl("delete", "pods", "--all", "--namespace", name, *now)
        waiting = f"--wait={str(wait).lower()}"
        self.try_kubectl("delete", "namespace", name, "--ignore-not-found", waiting)

    def wait_for_pod(
        self, pod: str, is_reached: Callable[[Any], bool], *, namespace: str, timeout_s: float = 90
    ) -> Any:  # noqa: ANN401 - a pod as the API shows it
        """Wait until a pod is as wanted and return it."""
        target = ("pod", pod, "--namespace", namespace, "--output", "json")

        def reached() -> Any:  # noqa: ANN401
            result = self.try_kubectl("get", *target)
            found = json.loads(result.stdout) if result.returncode == 0 else None
            return found if found is not None and is_reached(found) else None

        return wait_for(reached, timeout_s=timeout_s)


class Testbed(Cluster):
    """The cluster of real programs on this machine."""

    __test__ = False  # no class of tests, whatever its name

    def __init__(self, *, kubeconfig: Path, programs: Programs) -> None:
        """Take over a testbed that runs."""
        super().__init__(kubeconfig=kubeconfig, kubectl=programs.find("kubectl"))
        self.programs = programs

    def wait_until_ready(self) -> None:
        """Wait until the node is ready and advertises its GPUs."""
        deadline = time.monotonic() + 120
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise SetupError(f"node {layout.NODE} is not ready: see the logs in {layout.LOGS}")
            time.sleep(0.2)
        resources = node.extended_resources()
        status = {"status": {"capacity": resources, "allocatable": resources}}
        target = ("node", layout.NODE, "--subresource=status", "--type=merge")
        self.kubectl("patch", *target, "--patch", json.dumps(status))

    def add_volume(self, storage_class: str = volumes.SHARED) -> str:
        """Make a fresh volume of a storage class of the testbed and return its name."""
        volume = volumes.volume_manifest(storage_class)
        self._add_volumes([volume])
        return volume["metadata"]["name"]

    def declare_storage(self) -> None:
        """Make the storage classes, and the volumes that a testbed begins with."""
        self._add_volumes(volumes.storage_manifests())

    def add_kwok_nodes(self, number: int, **shape: Any) -> list[str]:  # noqa: ANN401 - kwok.Shape's
        """Add nodes that run nothing and say that they do; return their names once all are ready.

        Options are the fields of `kwok.Shape`: gpus, gpu_product, labels, resources, is_tainted.
        """
        kwok.start(self.programs)
        made = [kwok.node_manifest(kwok.Shape(**shape)) for _ in range(number)]
        document = {"apiVersion": "v1", "kind": "List", "items": made}
        # Created, not applied: an apply takes the status for nothing.
        self.kubectl("create", "--filename", "-", stdin=json.dumps(document), timeout_s=300)
        names = [manifest["metadata"]["name"] for manifest in made]
        # `kubectl wait` looks at one after the other, five in a second.
        wait_for(lambda: self._ready_nodes() >= set(names), timeout_s=300)
        return names

    def remove_kwok_nodes(self, names: Iterable[str] | None = None) -> None:
        """Remove the nodes, or all nodes of kwok; their pods go with them."""
        chosen = ("--selector", f"type={kwok.KWOK}") if names is None else tuple(names)
        if chosen:
            self.kubectl("delete", "nodes", "--ignore-not-found", *chosen, timeout_s=300)

    def lose_node(self, name: str) -> None:
        """Let a node of kwok fall silent: it is NotReady after `control_plane.NODE_GRACE_S`."""
        self.kubectl("annotate", "node", name, f"{kwok.MANAGED}-")
        # kwok renews a node's lease for ever, except one that somebody else holds; and the node
        # controller takes its own cache for stale where a lease changes without being renewed.
        lease = ("lease", name, "--namespace", "kube-node-lease", "--type=merge")
        spec = {
            "holderIdentity": "nobody",
            "leaseDurationSeconds": 86400,
            "renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        self.kubectl("patch", *lease, "--patch", json.dumps({"spec": spec}))

    def stop_api_server(self) -> None:
        """End the API server, as an outage does; pods run on."""
        kill_daemon(control_plane.API_SERVER)

    def start_api_server(self) -> None:
        """Start the API server again, if it does not run, and wait until it serves."""
        if find_daemon(control_plane.API_SERVER) is None:
            control_plane.start_api_server(self.programs)
        control_plane.wait_for_api_server()

    def stop_kubelet(self) -> None:
        """End the kubelet: the real node is lost after NODE_GRACE_S, its containers run on."""
        stop_daemon(node.KUBELET)

    def start_kubelet(self) -> None:
        """Start the kubelet again, if it does not run, and wait for its node."""
        if find_daemon(node.KUBELET) is None:
            node.start_kubelet(self.programs)
        self.wait_until_ready()

    def kill_container(
        self,
        pod: str,
        *,
        namespace: str,
        container: str | None = None,
        number: signal.Signals = signal.SIGKILL,
    ) -> None:
        """Signal a container's first process from outside, as the kernel does when memory is out.

        A container's own processes cannot: the kernel guards the first process of a pid namespace.
        """
        found = self.get("pod", pod, "--namespace", namespace)
        statuses: Sequence[dict[str, Any]] = found["status"]["containerStatuses"]
        identity = next(
            status["containerID"].removeprefix("containerd://")
            for status in statuses
            if container in {None, status["name"]}
        )
        task = ("tasks", "kill", "--signal", number.name, identity)
        result = node.ctr(self.programs, *task)
        assert result.returncode == 0, f"ctr tasks kill: {result.stderr.strip()}"

    def _ready_nodes(self) -> set[str]:
        found = self.get("nodes", "--selector", f"type={kwok.KWOK}")["items"]
        return {node["metadata"]["name"] for node in found if is_ready(node)}

    def _add_volumes(self, manifests: Sequence[dict[str, Any]]) -> None:
        for manifest in manifests:
            if manifest["kind"] == "PersistentVolume":
                volumes.make_folder(manifest)
        self.apply(*manifests)

    def _is_ready(self) -> bool:
        condition = '{.status.conditions[?(@.type=="Ready")].status}'
        result = self.try_kubectl("get", "node", layout.NODE, "--output", f"jsonpath={condition}")
        return result.stdout == "True"


def is_ready(node: Manifest) -> bool:
    """Tell whether a node says that it is ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
