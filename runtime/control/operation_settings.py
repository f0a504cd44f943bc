"""The plain settings of a run's stack that an operation writes: all of a MAKE, else what changed.

Pure; used by whoever begins an operation.
"""

from pydantic import JsonValue

from runtime import gpus
from runtime.control.operations import OperationKind
from runtime.control.values import StoredRun


def made_settings(run: StoredRun, cluster: str, control_plane_id: str) -> dict[str, JsonValue]:
    """Return everything that a run's stack is made with but its secrets."""
    return {
        **run.settings,
        "configText": run.config_text,
        "cluster": cluster,
        "controlPlane": control_plane_id,
    }


def changed_settings(run: StoredRun, kind: OperationKind) -> dict[str, JsonValue]:
    """Return what a promotion or a new attempt has changed; nothing for other operations."""
    if kind not in {OperationKind.UP, OperationKind.RESUME}:
        return {}
    changed: dict[str, JsonValue] = {"cluster": run.cluster or ""}
    if run.gpu_type not in {None, gpus.CPU_SLOT}:
        changed["gpuType"] = str(run.gpu_type)
    if run.settings.get("imageTag"):
        changed["imageTag"] = str(run.settings["imageTag"])
    if kind is OperationKind.RESUME:
        changed["attempt"] = run.attempt
    if run.is_adopted:  # its own settings may name a file of somebody's project
        changed["configText"] = run.config_text
    return changed
