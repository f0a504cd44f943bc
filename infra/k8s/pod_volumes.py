"""Volumes of a run's pods, and where each is mounted. Pure.

The run directory is a folder of the run volume, so two runs on one volume do not see each other's
files. Caches of models and compiled kernels lie on a volume too, never on the node's own disk: a
pod that fills that is evicted.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pod_resources import memory_quantity, pod_shape
from runtime import naming, pod_names
from runtime.pod_layout import (
    LAUNCH_DIR,
    MODELS_DIR,
    OTHER_RUN_DIR,
    PACKAGES_DIR,
    RUN_DIR,
    VOLUME_DIR,
)
from runtime.resume_from import parse_resume_from

RUN = "run"
LAUNCH = "launch"
MODELS = "models"
SHM = "shm"
PACKAGES = "packages"

MODELS_SUBPATH = "models"
"""Folder of the run volume that caches models where the cluster has no model cache."""

IMPORTS_TASKSETS = (naming.ORCHESTRATOR, naming.ENV_SERVER)
"""Roles that import environment packages: the orchestrator reads the rows itself."""


def installs_packages(group: JobGroup, placed: PlacedRun) -> bool:
    """Tell whether the pods of a group install environment packages before they start."""
    return bool(placed.environments) and group.role in IMPORTS_TASKSETS


def pod_volumes(group: JobGroup, placed: PlacedRun) -> list[Manifest]:
    """Return the volumes of a group's pods."""
    plan, offer = placed.plan, placed.kubernetes
    shm = memory_quantity(pod_shape(group, placed).shm_gib)
    found: list[Manifest] = [
        {"name": RUN, "persistentVolumeClaim": {"claimName": placed.volume_claim}},
        {
            "name": LAUNCH,
            "configMap": {"name": pod_names.config_map_name(plan.run_id, plan.attempt)},
        },
        {"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": shm}},
    ]
    if offer.models_claim is not None:
        claim = {"claimName": offer.models_claim}
        found.append({"name": MODELS, "persistentVolumeClaim": claim})
    if installs_packages(group, placed):
        found.append({"name": PACKAGES, "emptyDir": {}})
    return found


def volume_mounts(group: JobGroup, placed: PlacedRun) -> list[Manifest]:
    """Return the mounts of the containers of a group's pods."""
    found: list[Manifest] = [
        {"name": RUN, "mountPath": RUN_DIR, "subPath": f"runs/{placed.plan.run_id}"},
        {"name": LAUNCH, "mountPath": LAUNCH_DIR, "readOnly": True},
        {"name": SHM, "mountPath": "/dev/shm"},  # noqa: S108 - a mount of the pod's own
        _models_mount(placed),
    ]
    if placed.volume_mounted:
        found.append({"name": RUN, "mountPath": VOLUME_DIR})
    if installs_packages(group, placed):
        found.append({"name": PACKAGES, "mountPath": PACKAGES_DIR})
    return found


def other_run_mount(group: JobGroup, placed: PlacedRun) -> list[Manifest]:
    """Return the mount of the run whose checkpoint a run starts with, for `prepare`, if any.

    Of that run alone: what else lies on the volume may be another user's. Kubelet makes an empty
    folder of one that is not there, and `prepare` then says so.
    """
    if placed.plan.resume_from is None or group.role != naming.ORCHESTRATOR:
        return []
    other = parse_resume_from(placed.plan.resume_from).run_id
    folder = f"runs/{other}"
    return [{"name": RUN, "mountPath": OTHER_RUN_DIR, "subPath": folder, "readOnly": True}]


def models_read_only(placed: PlacedRun) -> bool:
    """Tell whether the pods cannot write into the model cache."""
    return placed.kubernetes.models_claim is not None and placed.kubernetes.models_read_only


def _models_mount(placed: PlacedRun) -> Manifest:
    if placed.kubernetes.models_claim is None:
        return {"name": RUN, "mountPath": MODELS_DIR, "subPath": MODELS_SUBPATH}
    mount: Manifest = {"name": MODELS, "mountPath": MODELS_DIR}
    return mount | {"readOnly": True} if models_read_only(placed) else mount
