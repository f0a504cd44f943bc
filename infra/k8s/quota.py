"""What bounds and orders the runs of a namespace: a quota of GPUs, a PriorityClass. Pure."""

from infra.k8s.adopted import AdoptedStack, Manifest
from runtime.kubernetes_nodes import GPU_RESOURCE


def gpu_quota(stack: AdoptedStack) -> list[Manifest]:
    """Return the ResourceQuota on GPUs, where the settings give one."""
    if stack.settings.gpu_quota is None:
        return []
    hard = {f"requests.{GPU_RESOURCE}": str(stack.settings.gpu_quota)}
    metadata = stack.metadata("paddock-gpus")
    return [
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
    ]


def priority_class(stack: AdoptedStack) -> list[Manifest]:
    """Return the PriorityClass, where the settings give its value.

    It never preempts: a run that loses a pod is lost as a whole.
    """
    settings = stack.settings
    if settings.priority_class is None or settings.priority_value is None:
        return []
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": stack.global_metadata(settings.priority_class),
            "value": settings.priority_value,
            "preemptionPolicy": "Never",
            "description": "runs of paddock",
        }
    ]
