"""The Job that downloads a model into a cluster's model cache, and its token's Secret. Pure.

The Secret is owned by the Job, and the Job goes by itself an hour after its end, so that nothing
stays of a `paddock models add` whose terminal was closed.
"""

import secrets
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from runtime import naming, pod_layout
from runtime.cluster import ClusterProfile, KubernetesOffer
from runtime.kubernetes_job_secret import job_secret
from runtime.pod_literals import literal

Manifest = dict[str, Any]  # Any: a Kubernetes object

MAIN = "main"
"""Name of the container."""

LABEL_MODEL = f"{naming.LABEL_PREFIX}/model"
_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of a variable
_PROGRAM = "fetch_model.py"
_KEEP_S = 3600
_LIMIT_S = 12 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """A model to fetch; `image` has huggingface_hub, `token` and `endpoint` are the hub's."""

    model: str
    image: str
    revision: str | None = None
    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)


def job_name(model: str) -> str:
    """Return a fresh name for a model's Job: two downloads of one model may run at once."""
    return f"{naming.slug(f'paddock-model-{model}', 50)}-{secrets.token_hex(3)}"


def model_job(name: str, request: ModelRequest, profile: ClusterProfile) -> Manifest:
    """Return the Job; the profile must have a model cache."""
    labels = {naming.LABEL_MANAGED_BY: naming.PROJECT, LABEL_MODEL: naming.slug(request.model)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEEP_S,
            "activeDeadlineSeconds": _LIMIT_S,
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(name, request, profile),
            },
        },
    }


def token_secret(job: Manifest, token: str) -> Manifest:
    """Return the Secret with the hub's token, owned by a Job that was created."""
    return job_secret(job, {_TOKEN: token})


def _pod(name: str, request: ModelRequest, profile: ClusterProfile) -> Manifest:
    offer = profile.kubernetes
    assert offer is not None, "a profile of the kubernetes target says how"
    program = resources.files("runtime.launch").joinpath(_PROGRAM).read_text("utf-8")
    words = (program, request.model, request.revision or "")
    mounts = {"models": pod_layout.MODELS_DIR, "tmp": "/tmp"}  # noqa: S108 - the pod's own
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsUser": offer.run_as_user,
            "runAsGroup": offer.fs_group,
            "runAsNonRoot": True,
            "fsGroup": offer.fs_group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": MAIN,
                "image": request.image,
                "command": ["python3", "-u", "-c", *map(literal, words)],
                "env": _environment(request),
                **({"envFrom": [{"secretRef": {"name": name}}]} if request.token else {}),
                "resources": {
                    "requests": {"cpu": "1", "memory": "2Gi"},
                    "limits": {"memory": "8Gi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": volume, "mountPath": path} for volume, path in mounts.items()
                ],
            }
        ],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": offer.models_claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "tolerations": _tolerations(offer, profile),
        "imagePullSecrets": [{"name": secret} for secret in offer.image_pull_secrets],
    }


def _environment(request: ModelRequest) -> list[dict[str, str]]:
    values = {
        "HF_HOME": pod_layout.HF_HOME,
        "HOME": "/tmp",  # noqa: S108 - the pod's own
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # they are no lines
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if request.endpoint:
        values["HF_ENDPOINT"] = request.endpoint
    return [{"name": key, "value": literal(value)} for key, value in values.items()]


def _tolerations(offer: KubernetesOffer, profile: ClusterProfile) -> list[dict[str, str]]:
    """Return those of every pod, and of GPU nodes where there may be no others."""
    found = [one.manifest() for one in offer.tolerations]
    if offer.node_class is None:
        found += [one.manifest() for gpu in profile.gpus for one in gpu.tolerations]
    return [one for index, one in enumerate(found) if one not in found[:index]]
