"""The in-cluster `paddock reconcile`: writes the records of runs while nobody watches. Pure.

Its image is the user's own, with paddock installed; it reaches the API by its service account.
"""

from infra.k8s.adopted import (
    CONTAINER_SECURITY,
    SKIP_AWAIT,
    AdoptedStack,
    Manifest,
    off_gpu_nodes,
    pod_labels,
    pod_security,
)
from infra.k8s.rbac import RECONCILE

IN_CLUSTER = "in-cluster"
"""Context that stands for the service account of the pod that asks."""


def reconcile_deployment(stack: AdoptedStack) -> list[Manifest]:
    """Return the Deployment, where the settings give its image."""
    image = stack.settings.reconcile_image
    return [_deployment(stack, image)] if image is not None else []


def _deployment(stack: AdoptedStack, image: str) -> Manifest:
    labels = pod_labels(stack, "reconcile")
    pod = {
        "serviceAccountName": RECONCILE,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(stack),
        "containers": [
            {
                "name": "main",
                "image": image,
                "command": ["paddock", "reconcile"],
                "args": ["--context", IN_CLUSTER, "--namespace", stack.namespace],
                "env": [{"name": "PADDOCK_HOME", "value": "/tmp/paddock"}],  # noqa: S108 - the pod's
                "resources": {
                    "requests": {"cpu": "50m", "memory": "128Mi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - as above
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        **off_gpu_nodes(stack),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**stack.metadata(RECONCILE), "annotations": SKIP_AWAIT},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
