"""The `files` Deployments: run directories over HTTP, from outside, after a run's pods too. Pure.

The cluster stack has one for its run volume, each volume stack one for its claim. Their program is
`runtime/launch/files.py`, which a ConfigMap carries; the volumes are mounted read-only. They are
reached through the API server's pod proxy, so they need no Service.
"""

import hashlib
from importlib import resources

from infra.k8s.adopted import (
    CONTAINER_SECURITY,
    SKIP_AWAIT,
    AdoptedStack,
    Manifest,
    off_gpu_nodes,
    pod_labels,
    pod_security,
)
from runtime import naming
from runtime.kubernetes_profile import FILES_PORT, FILES_SECRET, FILES_SERVER, FILES_TOKEN_KEY

NAME = "paddock-files"
PROGRAM = "files.py"
_PROGRAM_DIR = "/paddock/files"
_TOKEN_DIR = "/paddock/token"  # noqa: S105 - a folder
_TOKEN_FILE = f"{_TOKEN_DIR}/{FILES_TOKEN_KEY}"
_VOLUMES_DIR = "/volumes"


def files_server(stack: AdoptedStack) -> list[Manifest]:
    """Return the ConfigMap with the program, and the Deployment of the cluster stack."""
    claims = (stack.kubernetes.run_claim, *stack.settings.files_claims)
    return _server(stack, NAME, tuple(dict.fromkeys(claims)), {})


def volume_files_server(stack: AdoptedStack, volume: str, claim: str) -> list[Manifest]:
    """Return the same for the claim of a volume stack of this cluster stack."""
    labels = {naming.LABEL_VOLUME: naming.slug(volume)}
    return _server(stack, f"{NAME}-{naming.slug(volume)}", (claim,), labels)


def _server(
    stack: AdoptedStack, name: str, claims: tuple[str, ...], own_labels: dict[str, str]
) -> list[Manifest]:
    program = resources.files("runtime.launch").joinpath(PROGRAM).read_text("utf-8")
    # a name by content: a changed program is a new ConfigMap, and so a rollout
    config_name = f"{name}-{hashlib.sha256(program.encode()).hexdigest()[:8]}"
    metadata = stack.metadata(name)
    labels = {**pod_labels(stack, FILES_SERVER), **own_labels}
    config_map: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": stack.metadata(config_name),
        "data": {PROGRAM: program},
    }
    deployment: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": SKIP_AWAIT},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(stack, claims, config_map_name=config_name),
            },
        },
    }
    return [config_map, deployment]


def _pod(stack: AdoptedStack, claims: tuple[str, ...], *, config_map_name: str) -> Manifest:
    volumes = {claim: f"volume-{index}" for index, claim in enumerate(claims)}
    mounts = [
        {"name": name, "mountPath": f"{_VOLUMES_DIR}/{name}", "readOnly": True}
        for name in volumes.values()
    ]
    roots = [word for mount in mounts for word in ("--root", str(mount["mountPath"]))]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # no fsGroup: it would change what runs own; the group reads what it owns already
        "securityContext": {
            **pod_security(stack),
            "supplementalGroups": [stack.kubernetes.fs_group],
        },
        "containers": [
            {
                "name": "main",
                "image": stack.settings.tools_image,
                "command": ["python3", "-u", f"{_PROGRAM_DIR}/{PROGRAM}"],
                "args": ["--port", str(FILES_PORT), "--token-file", _TOKEN_FILE, *roots],
                "ports": [{"name": "http", "containerPort": FILES_PORT}],
                **_probes(),
                "resources": {
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                    "limits": {"memory": "512Mi"},
                },
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [
                    {"name": "program", "mountPath": _PROGRAM_DIR, "readOnly": True},
                    {"name": "token", "mountPath": _TOKEN_DIR, "readOnly": True},
                    *mounts,
                ],
            }
        ],
        "volumes": [
            {"name": "program", "configMap": {"name": config_map_name}},
            {"name": "token", "secret": {"secretName": FILES_SECRET}},
            *(
                {"name": name, "persistentVolumeClaim": {"claimName": claim}}
                for claim, name in volumes.items()
            ),
        ],
        **off_gpu_nodes(stack),
    }


def _probes() -> Manifest:
    """Return the probes; alive is told by connection alone: 64 busy readers are no failure."""
    return {
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": FILES_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "livenessProbe": {
            "tcpSocket": {"port": FILES_PORT},
            "periodSeconds": 20,
            "timeoutSeconds": 5,
        },
    }
