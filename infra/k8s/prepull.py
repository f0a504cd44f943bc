"""The pre-pull DaemonSet: keeps prime-rl's image on every GPU node. Pure.

The image is 20 GB and more, so that a first run on a node waits many minutes for it. A container of
the image that only sleeps also keeps kubelet from removing it.
"""

from infra.k8s.adopted import (
    CONTAINER_SECURITY,
    SKIP_AWAIT,
    AdoptedStack,
    Manifest,
    pod_labels,
    pod_security,
    pull_secrets,
)
from runtime import limits

NAME = "paddock-prepull"


def prepull(stack: AdoptedStack) -> list[Manifest]:
    """Return the DaemonSet, where the settings ask for it; it follows the default tag."""
    if not stack.settings.prepull:
        return []
    labels = pod_labels(stack, "prepull")
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": pod_security(stack),
        "containers": [
            {
                "name": "main",
                "image": f"{stack.settings.image}:{limits.DEFAULT_IMAGE_TAG}",
                "imagePullPolicy": "Always",
                "command": ["sleep", "infinity"],
                "resources": {
                    "requests": {"cpu": "10m", "memory": "16Mi"},
                    "limits": {"memory": "64Mi"},
                },
                "securityContext": CONTAINER_SECURITY,
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": _gpu_nodes(stack)
                }
            }
        },
        "tolerations": [{"operator": "Exists"}],
        **pull_secrets(stack),
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {**stack.metadata(NAME), "annotations": SKIP_AWAIT},
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    ]


def _gpu_nodes(stack: AdoptedStack) -> list[Manifest]:
    """Return one term a GPU type: terms are alternatives."""
    return [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]}
                for key, value in offer.node_selector.items()
            ]
        }
        for offer in stack.profile.gpus
        if offer.node_selector
    ]
