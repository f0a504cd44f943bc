"""A new operation of a run, and the plain settings of its stack: all of a MAKE, else what changed.

Used by whoever begins an operation; nothing here reads or writes anything.
"""

from pydantic import JsonValue

from runtime import gpus
from runtime.control.operations import Operation, OperationKind
from runtime.control.situations import Situation
from runtime.control.values import Lease, StoredRun
from runtime.naming import new_run_id


def new_operation(
    kind: OperationKind, at: Situation, fence: Lease, *, control_plane_id: str
) -> Operation:
    """Return an operation of this kind of a run, under the lease by which it was decided."""
    run, newest = at.run, at.newest
    # that of a run in the queue is where its stack was made for
    cluster = run.cluster or (newest.cluster if newest is not None else "")
    if kind is OperationKind.MAKE:
        settings = made_settings(run, cluster, control_plane_id)
    else:
        settings = changed_settings(run, kind)
    return Operation(
        operation_id=new_run_id(),
        kind=kind,
        run_id=run.run_id,
        attempt=run.attempt,
        cluster=cluster,
        lease=fence,
        settings=settings,
        is_adopted=run.is_adopted,
        has_server_died=kind is OperationKind.RECOVER and at.has_server_died,
    )


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
