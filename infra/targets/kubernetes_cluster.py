"""Cluster and volume stacks of the kubernetes target; runs are in `infra.targets.kubernetes`.

The cluster is looked over before the first resource is declared, at preview as at up, so that what
would keep runs from starting is refused while nothing is made.
"""

from contextlib import closing
from typing import Any

import pulumi

from infra.settings import StackSettings
from runtime import naming
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.kubernetes_permissions import Access
from runtime.kubernetes_profile import AdoptedCluster, adopt_cluster, wanted
from runtime.stack_settings import ClusterSettings, VolumeSettings

Outputs = dict[str, Any]  # Any: pulumi.Input values of stack outputs


def declare_cluster(settings: StackSettings, body: ClusterSettings) -> Outputs:
    """Declare what a cluster that is there needs for runs; export the ClusterProfile."""
    from infra.k8s.adopted import AdoptedStack
    from infra.k8s.cluster import AdoptedClusterComponent

    assert isinstance(body, KubernetesClusterSettings), "the settings model goes by the target"
    adopted, has_cluster_roles = _look_over(settings.stack, body)
    remarks = list(adopted.remarks)
    if not has_cluster_roles:
        remarks.append(
            "no right to make ClusterRoles: accounts of this stack cannot see nodes, which "
            "headroom and a stopped node's reason need"
        )
    for remark in remarks:
        pulumi.log.info(f"notice: {remark}")
    stack = AdoptedStack(name=settings.stack, settings=body, profile=adopted.profile)
    made = AdoptedClusterComponent(stack, has_cluster_roles=has_cluster_roles)
    exported = adopted.profile.model_dump(mode="json")
    return {
        # after the claims are there: a run stack must not find a profile of nothing
        "profile": made.is_placed.apply(lambda _: exported),
        "notices": remarks,
    }


def declare_volume(
    settings: StackSettings, body: VolumeSettings, profile: ClusterProfile
) -> Outputs:
    """Declare a claim that outlives runs, protected, and a file server that shows it."""
    from infra.k8s.adopted import AdoptedStack
    from infra.k8s.claim import Volume
    from infra.k8s.volume_files import VolumeFilesComponent

    connection, offer = profile.connection, profile.kubernetes
    assert isinstance(connection, KubernetesConnection), "the target goes by the connection"
    assert offer is not None, "a profile of the kubernetes target has it"
    claim = body.claim or settings.stack
    is_shared = _is_shared(connection, claim)
    inputs = {
        "context": connection.context,
        "namespace": connection.namespace,
        "labels": naming.volume_labels(profile.name, settings.stack),
        "claim": claim,
        "size": body.size,
        "storageClass": body.storage_class or offer.storage_class,
        "mustExist": body.claim is not None,
    }
    volume = Volume(settings.stack, inputs, pulumi.ResourceOptions(protect=True))
    if not is_shared:
        pulumi.log.info(
            f"notice: claim {claim} is not ReadWriteMany: no file server, and no multi_node"
        )
    elif offer.files is not None and offer.files.image is not None:
        VolumeFilesComponent(settings.stack, AdoptedStack.of_profile(profile), claim, volume)
    return {"claim": volume.id, "cluster": profile.name, "shared": is_shared}


def _is_shared(connection: KubernetesConnection, claim: str) -> bool:
    """Tell whether several nodes can mount a claim; one that is not there yet is made so."""
    from runtime.kubernetes_api import KubernetesApi
    from runtime.kubernetes_discovery import claim_fact

    with closing(KubernetesApi.connect(connection)) as api:
        found = api.get("PersistentVolumeClaim", claim)
    return found is None or claim_fact(found).is_shared


def _look_over(stack: str, body: KubernetesClusterSettings) -> tuple[AdoptedCluster, bool]:
    """Return the adopted cluster, and whether the caller may make cluster-wide roles."""
    from runtime.kubernetes_api import KubernetesApi
    from runtime.kubernetes_discovery import discover, is_allowed

    connection = KubernetesConnection(context=body.context, namespace=body.namespace)
    with closing(KubernetesApi.connect(connection)) as api:
        found = discover(api, wanted(body))
        adopted = adopt_cluster(stack, body, found)
        group = "rbac.authorization.k8s.io"
        may = [
            is_allowed(api, Access(verb="create", group=group, resource=resource, namespace=""))
            for resource in ("clusterroles", "clusterrolebindings")
        ]
    return adopted, all(may)
