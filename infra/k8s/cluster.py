"""AdoptedClusterComponent: all that a cluster stack makes on a cluster that is there already.

What outlives the stack (namespace, claims) is a dynamic resource that is never deleted; everything
else is an object that goes with it. What runs and volumes need is decided in pure functions; here
is only the order.
"""

from collections.abc import Sequence

import pulumi

from infra.component import Component
from infra.k8s.adopted import AdoptedStack, Manifest
from infra.k8s.claim import KeptClaim
from infra.k8s.files_server import files_server
from infra.k8s.namespace import AdoptedNamespace
from infra.k8s.prepull import prepull
from infra.k8s.queues import queues
from infra.k8s.quota import gpu_quota, priority_class
from infra.k8s.rbac import (
    operator_access,
    operator_node_access,
    reconcile_access,
    reconcile_node_access,
)
from infra.k8s.reconcile_deployment import reconcile_deployment
from infra.k8s.resources import KubernetesObject, make_provider
from infra.k8s.token import FilesToken
from runtime.kubernetes_profile import FILES_SECRET, FILES_TOKEN_KEY


class AdoptedClusterComponent(Component):
    """What a cluster stack makes on a Kubernetes cluster."""

    def __init__(self, stack: AdoptedStack, *, has_cluster_roles: bool) -> None:
        """Declare everything; `has_cluster_roles`: the caller may make cluster-wide roles."""
        super().__init__("k8s", "Cluster", stack.name)
        self._stack = stack
        self._cluster_provider = make_provider(f"{stack.name}-kubernetes", stack.connection)
        self._adopted_namespace = AdoptedNamespace(
            f"{stack.name}-namespace", self._inputs(), self.child_opts()
        )
        claims = self._claims()
        self._access(has_cluster_roles=has_cluster_roles)
        self._declare([*gpu_quota(stack), *priority_class(stack), *prepull(stack)])
        self._chain(queues(stack))
        if stack.kubernetes.files is not None:
            token = FilesToken(
                f"{stack.name}-files-token",
                {**self._inputs(), "secret": FILES_SECRET, "key": FILES_TOKEN_KEY},
                self.child_opts(self._adopted_namespace),
            )
            self._declare(files_server(stack), token, *claims)
        self.is_placed = claims[0].id
        """Known once runs can be placed: the namespace and the run volume are there."""
        self.finish({"namespace": self._adopted_namespace.id})

    def _inputs(self) -> dict[str, object]:
        stack = self._stack
        return {
            "context": stack.settings.context,
            "namespace": stack.namespace,
            "labels": stack.labels,
        }

    def _claims(self) -> list[KeptClaim]:
        settings, offer = self._stack.settings, self._stack.kubernetes
        wanted = [
            ("runs", offer.run_claim, settings.run_volume_size, settings.run_volume_claim),
        ]
        if offer.models_claim is not None:
            size = settings.models_volume_size or ""
            wanted.append(("models", offer.models_claim, size, settings.models_volume_claim))
        return [
            KeptClaim(
                f"{self._stack.name}-{use}",
                {
                    **self._inputs(),
                    "claim": claim,
                    "size": size,
                    "storageClass": settings.storage_class,
                    "mustExist": adopted is not None,
                },
                self.child_opts(self._adopted_namespace),
            )
            for use, claim, size, adopted in wanted
        ]

    def _access(self, *, has_cluster_roles: bool) -> None:
        stack = self._stack
        self._declare(operator_access(stack))
        if has_cluster_roles:
            self._declare(operator_node_access(stack))
        if stack.settings.reconcile_image is None:
            return
        access = reconcile_access(stack)
        access += reconcile_node_access(stack) if has_cluster_roles else []
        self._declare(reconcile_deployment(stack), *self._declare(access))

    def _declare(
        self, manifests: Sequence[Manifest], *depends_on: pulumi.Resource
    ) -> list[KubernetesObject]:
        """Declare objects that are in each other's order already, or need none."""
        opts = pulumi.ResourceOptions.merge(
            self.child_opts(self._adopted_namespace, *depends_on),
            pulumi.ResourceOptions(provider=self._cluster_provider),
        )
        return [
            KubernetesObject(resource_name(self._stack, manifest), manifest, opts)
            for manifest in manifests
        ]

    def _chain(self, manifests: Sequence[Manifest]) -> None:
        """Declare objects one behind the other, so that they are deleted in the other order."""
        before: list[KubernetesObject] = []
        for manifest in manifests:
            before += self._declare([manifest], *before)


def resource_name(stack: AdoptedStack, manifest: Manifest) -> str:
    """Return the Pulumi name of an object: its stack, kind and name."""
    return f"{stack.name}-{str(manifest['kind']).lower()}-{manifest['metadata']['name']}"
