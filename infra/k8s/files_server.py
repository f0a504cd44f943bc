"""The `files` Deployment: run directories over HTTP, from outside, after a run's pods too. Pure.

Its program is `runtime/launch/files.py`, which its ConfigMap carries; the volumes are mounted
read-only. It is reached through the API server's pod proxy, so it needs no Service of its own.
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
from runtime.kubernetes_profile import FILES_PORT, FILES_SECRET, FILES_SERVER, FILES_TOKEN_KEY

NAME = "paddock-files"
PROGRAM = "files.py"
_PROGRAM_DIR = "/paddock/files"
_TOKEN_DIR = "/paddock/token"  # noqa: S105 - a folder
_TOKEN_FILE = f"{_TOKEN_DIR}/{FILES_TOKEN_KEY}"
_VOLUMES_DIR = "/volumes"


def files_server(stack: AdoptedStack) -> list[Manifest]:
    """Return the ConfigMap with the program, and the Deployment."""
    program = resources.files("runtime.launch").joinpath(PROGRAM).read_text("utf-8")
    # a name by content: a changed program is a new ConfigMap, and so a rollout
    name = f"{NAME}-{hashlib.sha256(program.encode()).hexdigest()[:8]}"
    config_map: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": stack.metadata(name),
        "data": {PROGRAM: program},
    }
    return [config_map, _deployment(stack, config_map_name=name)]


def _deployment(stack: AdoptedStack, *, config_map_name: str) -> Manifest:
    labels = pod_labels(stack, FILES_SERVER)
    metadata = stack.metadata(NAME)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": SKIP_AWAIT},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(stack, config_map_name=config_map_name),
            },
        },
    }


def _pod(stack: AdoptedStack, *, config_map_name: str) -> Manifest:
    claims = (stack.kubernetes.run_claim, *stack.settings.files_claims)
    volumes = {claim: f"volume-{index}" for index, claim in enumerate(dict.fromkeys(claims))}
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
