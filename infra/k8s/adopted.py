"""AdoptedStack: what the manifests of a cluster stack are made from; plain values only. Pure."""

from dataclasses import dataclass
from typing import Any

from runtime import naming
from runtime.cluster import ClusterProfile, KubernetesConnection, KubernetesOffer
from runtime.cluster_settings import KubernetesClusterSettings

Manifest = dict[str, Any]  # Any: JSON values of a Kubernetes object

SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
"""Annotation by which `up` waits for acceptance alone: whether pods run is observed later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptedStack:
    """A cluster stack: its name, its settings, and the profile that it exports."""

    name: str
    settings: KubernetesClusterSettings
    profile: ClusterProfile

    @classmethod
    def of_profile(cls, profile: ClusterProfile) -> "AdoptedStack":
        """Return a cluster's stack as far as its profile tells: what servers' pods are made of."""
        connection, offer = profile.connection, profile.kubernetes
        assert isinstance(connection, KubernetesConnection), "the target goes by the connection"
        assert offer is not None, "a profile of the kubernetes target has it"
        assert offer.files is not None, "asked before"
        assert offer.files.image is not None, "asked before"
        settings = KubernetesClusterSettings(
            kind="cluster",
            target="kubernetes",
            context=connection.context,
            namespace=connection.namespace,
            image_pull_secrets=offer.image_pull_secrets,
            tolerations=offer.tolerations,
            node_class=offer.node_class,
            tools_image=offer.files.image,
        )
        return cls(name=profile.name, settings=settings, profile=profile)

    @property
    def namespace(self) -> str:
        """Return the namespace of the runs."""
        return self.settings.namespace

    @property
    def connection(self) -> KubernetesConnection:
        """Return how the cluster is reached."""
        return KubernetesConnection(
            context=self.settings.context, namespace=self.settings.namespace
        )

    @property
    def kubernetes(self) -> KubernetesOffer:
        """Return what the cluster's pods are made with."""
        assert self.profile.kubernetes is not None, "a profile of the kubernetes target has it"
        return self.profile.kubernetes

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of everything that the stack makes."""
        return naming.cluster_labels(self.name)

    def metadata(self, name: str, **more: str) -> Manifest:
        """Return the metadata of a namespaced object; `more` are fields like `namespace`."""
        return {"name": name, "namespace": self.namespace, "labels": self.labels, **more}

    def global_metadata(self, name: str) -> Manifest:
        """Return the metadata of an object without a namespace."""
        return {"name": name, "labels": self.labels}


def pod_labels(stack: AdoptedStack, server: str) -> dict[str, str]:
    """Return the labels of the pods of one of the stack's servers."""
    return {**stack.labels, naming.LABEL_SERVER: server}


def pod_security(stack: AdoptedStack) -> Manifest:
    """Return the security context of the stack's pods: the user of the runs, nothing more."""
    offer = stack.kubernetes
    return {
        "runAsUser": offer.run_as_user,
        "runAsGroup": offer.fs_group,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Security context of the stack's containers."""


def off_gpu_nodes(stack: AdoptedStack) -> Manifest:
    """Return the pod fields that keep a server off GPU nodes where there are other nodes.

    On a reserved cluster all nodes may be GPU nodes, so their taints are tolerated; a pool that
    grows with its pods (Karpenter) is left alone.
    """
    found = [item.manifest() for item in stack.settings.tolerations]
    if stack.settings.node_class is None:
        found += [item.manifest() for offer in stack.profile.gpus for item in offer.tolerations]
    unwanted = [
        {
            "weight": 100,
            "preference": {
                "matchExpressions": [
                    {"key": key, "operator": "NotIn", "values": [value]}
                    for key, value in offer.node_selector.items()
                ]
            },
        }
        for offer in stack.profile.gpus
        if offer.node_selector
    ]
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": unwanted},
    }
    return {
        "tolerations": [one for index, one in enumerate(found) if one not in found[:index]],
        **({"affinity": affinity} if unwanted else {}),
        **pull_secrets(stack),
    }


def pull_secrets(stack: AdoptedStack) -> Manifest:
    """Return the pod field that names the Secrets of the images, where there are any."""
    names = stack.settings.image_pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}
