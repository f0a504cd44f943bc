"""Where each Kubernetes kind that paddock reads or writes lies in the API; pure.

A `Kind` is an API version, a plural and whether it is namespaced; `path` is the URL of a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runtime.errors import PaddockError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object of the API."""

    version: str
    """Group and version as in `apiVersion`: v1, batch/v1."""
    name: str
    plural: str
    is_namespaced: bool = True

    @property
    def resource(self) -> str:
        """Return the resource as RBAC and kubectl spell it: pods, jobs.batch."""
        group = self.version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    def at(self, version: str) -> "Kind":
        """Return the same kind in another version of its API."""
        return replace(self, version=version)

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, or of the collection without a name."""
        root = f"/api/{self.version}" if "/" not in self.version else f"/apis/{self.version}"
        within = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [f"{root}{within}/{self.plural}", name, subresource]
        return "/".join(part for part in parts if part)


GANG_VERSIONS = ("scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1")
"""API versions of native gang scheduling that carry PodGroup, the preferred first."""

KUEUE_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""API versions of Kueue that are read, the preferred first."""

_TABLE = (
    Kind("v1", "Namespace", "namespaces", False),
    Kind("v1", "Node", "nodes", False),
    Kind("v1", "Pod", "pods"),
    Kind("v1", "Event", "events"),
    Kind("v1", "Secret", "secrets"),
    Kind("v1", "ConfigMap", "configmaps"),
    Kind("v1", "Service", "services"),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    Kind("v1", "PersistentVolume", "persistentvolumes", False),
    Kind("v1", "ResourceQuota", "resourcequotas"),
    Kind("batch/v1", "Job", "jobs"),
    Kind("apps/v1", "Deployment", "deployments"),
    Kind("apps/v1", "DaemonSet", "daemonsets"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
    Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Kind("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
    Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", False),
    Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
    Kind(GANG_VERSIONS[-1], "PodGroup", "podgroups"),
    Kind(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
    ),
    Kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    Kind(KUEUE_VERSIONS[0], "Workload", "workloads"),
    Kind(KUEUE_VERSIONS[0], "LocalQueue", "localqueues"),
    Kind(KUEUE_VERSIONS[0], "ClusterQueue", "clusterqueues", False),
    Kind(KUEUE_VERSIONS[0], "ResourceFlavor", "resourceflavors", False),
    Kind("karpenter.sh/v1", "NodePool", "nodepools", False),
    Kind("karpenter.sh/v1", "NodeClaim", "nodeclaims", False),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _TABLE}
"""The kinds by name. `Workload` is Kueue's; `KINDS["Workload"].at(version)` is another version's,
and `Kind("scheduling.k8s.io/v1beta1", "Workload", "workloads")` the scheduler's own."""


def find_kind(kind: "str | Kind") -> Kind:
    """Return a kind by its name, or as it is given."""
    return kind if isinstance(kind, Kind) else KINDS[kind]


def versions_of(kind: str) -> tuple[Kind, ...]:
    """Return a kind in every version that clusters may serve it in, the preferred first."""
    found = KINDS[kind]
    return tuple(found.at(one) for one in GANG_VERSIONS) if kind == "PodGroup" else (found,)


def kind_of(manifest: Mapping[str, Any]) -> Kind:  # Any: a Kubernetes manifest
    """Return the kind of a manifest, in the manifest's own API version."""
    name, version = str(manifest["kind"]), str(manifest["apiVersion"])
    known = KINDS.get(name)
    if known is None:
        raise PaddockError(f"{version} {name}: no kind of runtime/kubernetes_kinds.py: add it")
    return known.at(version)


Labels = Mapping[str, str] | str | None
"""Labels to select by: a mapping, or a selector's text."""


def selector_params(labels: Labels, fields: str | None = None) -> dict[str, str]:
    """Return the query parameters that select objects."""
    params = {}
    if labels:
        is_text = isinstance(labels, str)
        params["labelSelector"] = labels if is_text else label_selector(labels)
    if fields:
        params["fieldSelector"] = fields
    return params


def label_selector(labels: Mapping[str, str]) -> str:
    """Return the text of a selector that demands every one of the labels."""
    return ",".join(f"{key}={value}" for key, value in labels.items())
