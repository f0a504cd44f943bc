"""Kubernetes objects as Pulumi resources: a manifest becomes one resource of one provider.

The provider reaches the cluster by a context of the caller's own kubeconfig, so that no credential
is in a program or a state. Manifests stay plain dicts in the API's own spelling; the type of the
resource is told by their apiVersion and kind, for built-in kinds and custom ones alike.
"""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pulumi

from runtime.cluster import KubernetesConnection

Manifest = Mapping[str, Any]  # Any: pulumi.Input values of a Kubernetes object


class KubernetesObject(pulumi.CustomResource):
    """One object of the cluster, as its manifest says."""

    def __init__(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> None:
        """Declare the object."""
        super().__init__(type_token(manifest), name, dict(manifest), opts)


def type_token(manifest: Manifest) -> str:
    """Return the Pulumi type of a manifest: `kubernetes:core/v1:ConfigMap`."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{kind}"


def make_provider(name: str, connection: KubernetesConnection) -> pulumi.ProviderResource:
    """Return the provider of a stack: the only one, handed to every object.

    By its package's name and version: importing pulumi_kubernetes would cost every `up` a quarter
    of a second. An object that somebody else made is never taken over in silence.
    """
    settings = {
        "context": connection.context,
        "namespace": connection.namespace,
        # its table of removed versions knows groups only, and takes a new v1beta1 for an old one
        "suppressDeprecationWarnings": "true",
    }
    opts = pulumi.ResourceOptions(version=metadata.version("pulumi-kubernetes"))
    return pulumi.ProviderResource("kubernetes", name, settings, opts)
