"""The in-cluster `paddock reconcile`: writes the records of runs while nobody watches. Pure.

Its image is the user's own, with paddock installed. It reads the cluster's profile from a ConfigMap
and reaches the API by its service account.
"""

import hashlib
import json

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

PROFILE_FILE = "profile.json"
_PROFILE_DIR = "/paddock/cluster"


def reconcile_deployment(stack: AdoptedStack) -> list[Manifest]:
    """Return the ConfigMap with the profile, and the Deployment, where the settings ask for it."""
    image = stack.settings.reconcile_image
    if image is None:
        return []
    connection = stack.connection.model_copy(update={"context": IN_CLUSTER})
    profile = stack.profile.model_copy(update={"connection": connection})
    text = json.dumps(profile.model_dump(mode="json"), indent=1, sort_keys=True)
    name = f"{RECONCILE}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    config_map: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": stack.metadata(name),
        "data": {PROFILE_FILE: text},
    }
    return [config_map, _deployment(stack, image=image, config_map_name=name)]


def _deployment(stack: AdoptedStack, *, image: str, config_map_name: str) -> Manifest:
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
                "args": ["--cluster", f"{_PROFILE_DIR}/{PROFILE_FILE}"],
                "env": [{"name": "PADDOCK_HOME", "value": "/tmp/paddock"}],  # noqa: S108 - the pod's
                "resources": {
                    "requests": {"cpu": "50m", "memory": "128Mi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [
                    {"name": "profile", "mountPath": _PROFILE_DIR, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
                ],
            }
        ],
        "volumes": [
            {"name": "profile", "configMap": {"name": config_map_name}},
            {"name": "tmp", "emptyDir": {}},
        ],
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
