"""Kueue's objects of a cluster stack: LocalQueue, ClusterQueue, ResourceFlavors. Pure.

Only GPUs are counted. Kueue admits nothing that asks for a resource which no group covers, so all
else that pods ask for is covered by a flavor without end, which ties no pod to GPU nodes.
"""

from infra.k8s.adopted import AdoptedStack, Manifest
from runtime import naming
from runtime.kubernetes_nodes import GPU_RESOURCE

_UNCOUNTED = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi")
_WITHOUT_END = "1P"  # 10^15 CPUs or bytes x 1000: more than any cluster has
_ANY = "paddock-any"


def queues(stack: AdoptedStack) -> list[Manifest]:
    """Return the queues that the settings ask for, in the order in which they need each other."""
    settings = stack.settings
    if settings.queue is None or settings.cluster_queue is None:
        return []
    version = stack.kubernetes.queue_api
    assert version is not None, "a queue without Kueue is refused before"
    made: list[Manifest] = []
    if settings.own_cluster_queue:
        made = [*_flavors(stack), _cluster_queue(stack)]
    local: Manifest = {
        "kind": "LocalQueue",
        "metadata": stack.metadata(settings.queue),
        "spec": {"clusterQueue": settings.cluster_queue},
    }
    return [{"apiVersion": version, **one} for one in (*made, local)]


def flavor_name(stack: AdoptedStack, gpu_type: str) -> str:
    """Return the name of a GPU type's flavor; flavors belong to the whole cluster."""
    return naming.slug(f"{stack.settings.cluster_queue}-{gpu_type}")


def _flavors(stack: AdoptedStack) -> list[Manifest]:
    any_node = {"kind": "ResourceFlavor", "metadata": stack.global_metadata(_any(stack))}
    typed = [
        {
            "kind": "ResourceFlavor",
            "metadata": stack.global_metadata(flavor_name(stack, offer.name)),
            "spec": {
                "nodeLabels": dict(offer.node_selector),
                "tolerations": [item.manifest() for item in offer.tolerations],
            },
        }
        for offer in stack.profile.gpus
    ]
    return [any_node, *typed]


def _cluster_queue(stack: AdoptedStack) -> Manifest:
    rdma = {offer.rdma_resource for offer in stack.profile.gpus if offer.rdma_resource}
    uncounted = [*_UNCOUNTED, *sorted(rdma)]
    gpus = [
        {
            "name": flavor_name(stack, offer.name),
            "resources": [{"name": GPU_RESOURCE, "nominalQuota": str(offer.num_gpus)}],
        }
        for offer in stack.profile.gpus
    ]
    others = [{"name": name, "nominalQuota": _WITHOUT_END} for name in uncounted]
    namespace = {"kubernetes.io/metadata.name": stack.namespace}
    return {
        "kind": "ClusterQueue",
        "metadata": stack.global_metadata(str(stack.settings.cluster_queue)),
        "spec": {
            "namespaceSelector": {"matchLabels": namespace},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [
                {"coveredResources": [GPU_RESOURCE], "flavors": gpus},
                {
                    "coveredResources": uncounted,
                    "flavors": [{"name": _any(stack), "resources": others}],
                },
            ],
        },
    }


def _any(stack: AdoptedStack) -> str:
    return naming.slug(f"{stack.settings.cluster_queue}-{_ANY}")
