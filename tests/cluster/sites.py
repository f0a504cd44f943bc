"""A site on a cluster: a private project and home, a namespace, and a cluster stack of its own.

Its GPU type has no node, and its run volume is for one node only, so that every pod of a run stays
Pending: what the stacks do is tried without what the pods do.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runtime.cluster import KubernetesConnection
from runtime.control.dispatch import new_stack
from runtime.control.private_project import make_private_project
from runtime.kubernetes_api import KINDS, KubernetesApi, Manifest
from runtime.kubernetes_record import ClusterRecord
from runtime.run_record import RunRecord
from tests.cluster.labs import global_objects
from tests.engine.sites import MODEL, ROOT, UNWANTED, Site
from tests.testbed import volumes
from tests.testbed.cluster import Cluster, Testbed

LAB = "lab"
GPU_TYPE = "B200_180GB"
RUN_CLAIM = "for-one-node"
OWNED = ("Job", "Pod", "Service", "ConfigMap", "Secret")

NOWHERE = {
    "name": GPU_TYPE,
    "num_nodes": 1,
    "gpus_per_node": 8,
    "price_usd_per_hour": 1,
    "node_selector": {"tests.paddock.dev/nowhere": "true"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSite(Site):
    """One private world of stacks on a cluster; `namespace` holds its runs."""

    kubernetes: Cluster
    api: KubernetesApi
    namespace: str
    cluster: str = LAB

    def owned(self, run_id: str) -> dict[str, str]:
        """Return uid by kind and name of every object that carries the run's label."""
        found = {}
        for kind in OWNED:
            for one in self.api.list(kind, labels={"paddock.dev/run": run_id}):
                name = f"{kind} {one['metadata']['name']}"
                if not name.startswith("ConfigMap paddock-record-"):
                    found[name] = one["metadata"]["uid"]
        return found

    def new_cluster(self, name: str, settings: dict[str, object]) -> None:
        """Make one more cluster stack and bring it up."""
        new_stack(self.project, name, settings)
        self.pulumi("up", "-s", name)

    def has_record(self, run_id: str) -> bool:
        """Tell whether a run's record has been begun."""
        return ClusterRecord(self.api, run_id).read() is not None

    def objects(self) -> list[Manifest]:
        """Return every object of the namespace of the kinds that runs make."""
        return [one for kind in OWNED for one in self.api.list(kind)]

    def cluster_record(self, run_id: str) -> RunRecord:
        """Return a run's record on the cluster."""
        found = ClusterRecord(self.api, run_id).read()
        assert found is not None
        return found


@contextmanager
def make_cluster_site(folder: Path, cluster: Cluster) -> Iterator[ClusterSite]:
    """Yield a site whose cluster stack is up; its namespace goes at the end."""
    namespace = cluster.make_namespace("stacks")
    context = cluster.kubectl("config", "current-context").strip()
    api = open_api(cluster, context, namespace)
    api.create("PersistentVolumeClaim", _claim(cluster))
    environ = _environment(folder, cluster)
    project = make_private_project(ROOT, folder / "project", environ=environ)
    site = ClusterSite(
        folder=folder, project=project, kubernetes=cluster, api=api, namespace=namespace
    )
    settings = cluster_settings(context, namespace)
    new_stack(site.project, LAB, settings)
    try:
        site.pulumi("up", "-s", LAB)
        yield site
        site.pulumi("destroy", "-s", LAB)
        assert global_objects(cluster, namespace) == []
    finally:
        site.kill_everything()
        api.close()
        cluster.delete_namespace(namespace)


def cluster_settings(context: str, namespace: str, **more: Any) -> dict[str, object]:  # noqa: ANN401
    """Return the settings of a cluster stack whose runs stay Pending."""
    return {
        "kind": "cluster",
        "target": "kubernetes",
        "context": context,
        "namespace": namespace,
        "runVolumeClaim": RUN_CLAIM,
        "models": json.dumps([MODEL]),
        "gpuTypes": json.dumps([GPU_TYPE]),
        "gpuOffers": json.dumps([NOWHERE]),
        **more,
    }


def open_api(cluster: Cluster, context: str, namespace: str) -> KubernetesApi:
    """Return a client of a namespace through the cluster's own kubeconfig."""
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    try:
        return KubernetesApi.connect(KubernetesConnection(context=context, namespace=namespace))
    finally:
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before


def held_pod(run_id: str, finalizer: str) -> Manifest:
    """Return a pod with a run's labels that a finalizer keeps from going."""
    labels = {
        "app.kubernetes.io/managed-by": "paddock",
        "paddock.dev/run": run_id,
        "paddock.dev/attempt": "1",
    }
    metadata = {"name": f"{run_id}-held", "labels": labels, "finalizers": [finalizer]}
    container = {"name": "main", "image": "example.org/none:none"}
    return {
        "apiVersion": KINDS["Pod"].version,
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeSelector": NOWHERE["node_selector"], "containers": [container]},
    }


def _claim(cluster: Cluster) -> Manifest:
    """Return the claim of the run volume; on the testbed it is bound, for pods that are placed."""
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if isinstance(cluster, Testbed):
        cluster.add_volume(volumes.SHARED)
        spec["storageClassName"] = volumes.SHARED
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": RUN_CLAIM},
        "spec": spec,
    }


def _environment(folder: Path, cluster: Cluster) -> Mapping[str, str]:
    """Return a caller's environment, in which no registry but the cluster can be reached."""
    caller = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    server = cluster.kubectl("config", "view", "--minify", "-o", "jsonpath={..server}")
    return {
        **caller,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PADDOCK_HOME": str(folder / "home"),
        "PADDOCK_CACHE": str(folder / "cache"),
        "PULUMI_HOME": str(folder / "pulumi-home"),
        # a registry that answers would give a digest which no node of a test cluster has
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "NO_PROXY": str(urlsplit(server).hostname),
    }
