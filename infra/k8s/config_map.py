"""The run's ConfigMap: the user's TOML, launch.json, and the programs that a pod starts. Pure.

The programs are the files of `runtime/launch` that need nothing but the standard library; they are
read from the package, like code.
"""

import json
from importlib import resources
from typing import Any

from infra.k8s.placed import Manifest, PlacedRun
from runtime import pod_names
from runtime.errors import Problem, RefusedError
from runtime.launch.pods import launch_document
from runtime.pod_layout import LAUNCH_FILE, PROGRAMS, TOML_FILE

MAX_BYTES = 1024 * 1024
"""What keys and values of a ConfigMap may have. Source: Kubernetes, MaxSecretSize."""


def run_config_map(placed: PlacedRun) -> Manifest:
    """Return the ConfigMap of one attempt.

    Raises RefusedError where the file and what goes with it are over Kubernetes' limit.
    """
    plan = placed.plan
    document = launch_document(
        plan,
        placed.config,
        placed.components,
        num_processes_per_node=placed.kubernetes.num_processes_per_node,
    )
    data = {TOML_FILE: placed.toml, LAUNCH_FILE: _json(document)} | read_programs()
    size = sum(len(key) + len(value.encode()) for key, value in data.items())
    if size > MAX_BYTES:
        raise RefusedError([_too_big(len(placed.toml.encode()), over=size - MAX_BYTES)])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": placed.metadata(pod_names.config_map_name(plan.run_id, plan.attempt)),
        "data": data,
    }


def read_programs() -> dict[str, str]:
    """Return the programs by file name."""
    folder = resources.files("runtime.launch")
    return {name: folder.joinpath(name).read_text("utf-8") for name in PROGRAMS}


def _json(document: dict[str, Any]) -> str:  # Any: JSON values
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _too_big(num_bytes: int, *, over: int) -> Problem:
    return Problem(
        message=f"the config file has {num_bytes} bytes, {over} more than a ConfigMap can hold"
        " beside what starts the run",
        fix="take comments out of it",
        code="config_size",
    )
