"""A lab: a cluster stack on the testbed, in a namespace of its own, and what looks at it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.cluster import KubernetesConnection
from runtime.kubernetes_api import KubernetesApi
from tests.engine.sites import Site, make_site
from tests.testbed.cluster import Cluster, Testbed
from tests.testbed.layout import NODE
from tests.testbed.volumes import SHARED
from tests.waiting import wait_for

STACK = "lab"
IMAGE = "primeintellect/prime-rl:main"
OFFER = {
    "name": "H200_141GB",
    "num_nodes": 1,
    "gpus_per_node": 32,
    "price_usd_per_hour": 1.0,
    "node_selector": {"kubernetes.io/hostname": NODE},
}
"""Given by hand: without the tolerations of GPU nodes no pod goes to a node of kwok."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lab:
    """A site with a cluster stack, and the namespace of its runs."""

    site: Site
    testbed: Testbed
    namespace: str

    def connect(self) -> KubernetesApi:
        """Return the API in the stack's namespace."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(self.testbed.kubeconfig))
            return KubernetesApi.connect(
                KubernetesConnection(context=self.context, namespace=self.namespace)
            )

    @property
    def context(self) -> str:
        return yaml.safe_load(self.testbed.kubeconfig.read_text())["current-context"]

    def names(self, kind: str) -> list[str]:
        """Return the names of the namespace's objects of a kind."""
        found = self.testbed.get(kind, "--namespace", self.namespace)["items"]
        return sorted(one["metadata"]["name"] for one in found)

    def settings(self, **values: object) -> dict[str, Any]:
        """Return the settings of a cluster stack of this namespace."""
        return {
            "kind": "cluster",
            "target": "kubernetes",
            "context": self.context,
            "namespace": self.namespace,
            "storageClass": SHARED,
            "toolsImage": IMAGE,
            "gpuOffers": json.dumps([OFFER]),
            **values,
        }


def wait_for_one_open_node(testbed: Testbed) -> None:
    """Wait until no node of kwok is open to these pods, which must really run."""

    def closed() -> bool:
        nodes = testbed.get("nodes", "--selector", "type=kwok")["items"]
        taints = [node["spec"].get("taints", []) for node in nodes]
        return all(any(one["effect"] == "NoSchedule" for one in found) for found in taints)

    wait_for(closed, timeout_s=300)


def make_lab(testbed: Testbed, folder: Path, namespace: str) -> Lab:
    """Return a lab without a stack."""
    site = make_site(folder, extra={"KUBECONFIG": str(testbed.kubeconfig)})
    return Lab(site=site, testbed=testbed, namespace=namespace)


def files_pod(lab: Lab) -> str:
    """Return the name of the file server's pod once it is ready."""
    selector = ("--selector", "paddock.dev/server=files", "--namespace", lab.namespace)

    def ready() -> str:
        for pod in lab.testbed.get("pods", *selector)["items"]:
            conditions = pod["status"].get("conditions", [])
            is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
            if is_ready and "deletionTimestamp" not in pod["metadata"]:
                return pod["metadata"]["name"]
        return ""

    return wait_for(ready, timeout_s=120)


def run_pod(lab: Lab, name: str, command: list[str], *, claim: str) -> str:
    """Run a command as the user of the runs with a claim at /v; return what it printed."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": lab.namespace},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": NODE,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": command,
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                }
            ],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
    lab.testbed.apply(pod)
    ended = lab.testbed.wait_for_pod(
        name,
        lambda found: found["status"]["phase"] in {"Succeeded", "Failed"},
        namespace=lab.namespace,
        timeout_s=120,
    )
    printed = lab.testbed.kubectl("logs", name, "--namespace", lab.namespace)
    assert ended["status"]["phase"] == "Succeeded", printed
    lab.testbed.delete(pod)
    return printed


def global_objects(cluster: Cluster, namespace: str) -> list[str]:
    """Return the objects without a namespace that a cluster stack made for this one."""
    found = cluster.get("clusterroles,clusterrolebindings,priorityclasses")["items"]
    named = [f"{one['kind']} {one['metadata']['name']}" for one in found]
    return [name for name in named if name.endswith(f"-{namespace}")]


def tiny_files(folder: Path) -> Path:
    """Return a folder with the files of a model that is nothing."""
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(os.urandom(2_000_000))
    return folder


@contextmanager
def limited_kubeconfig(testbed: Testbed, namespace: str, folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of an account with all rights in a namespace, and nodes to list."""
    account = f"system:serviceaccount:{namespace}:limited"
    role = f"limited-{namespace}"
    testbed.kubectl("create", "serviceaccount", "limited", "--namespace", namespace)
    testbed.kubectl("create", "clusterrole", role, "--verb=get,list,watch", "--resource=nodes")
    who = f"--serviceaccount={namespace}:limited"
    testbed.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", who)
    within = ("--clusterrole=cluster-admin", who, "--namespace", namespace)
    testbed.kubectl("create", "rolebinding", "limited", *within)
    token = testbed.kubectl("create", "token", "limited", "--namespace", namespace).strip()
    document = yaml.safe_load(testbed.kubeconfig.read_text())
    (cluster,) = document["clusters"]
    document["users"] = [{"name": account, "user": {"token": token}}]
    document["contexts"] = [
        {"name": "limited", "context": {"cluster": cluster["name"], "user": account}}
    ]
    document["current-context"] = "limited"
    path = folder / "limited.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    yield path
    testbed.kubectl("delete", "clusterrole,clusterrolebinding", role)
