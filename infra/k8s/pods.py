"""The pod template of a group of components. Pure.

A pod is one node's part of a component: init containers that install environment packages and
write the component's file, then the component under the launch wrapper. Nothing in it restarts: a
trainer that came back alone could not rejoin its peers, so a run is restarted as a whole, as a new
attempt.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pod_environment import env_from, environment
from infra.k8s.pod_placement import ANNOTATIONS, affinity, node_selector, tolerations
from infra.k8s.pod_resources import has_rdma, pod_resources
from infra.k8s.pod_volumes import (
    installs_packages,
    other_run_mount,
    pod_volumes,
    volume_mounts,
)
from infra.k8s.probes import probes
from runtime import limits, naming, pod_names
from runtime.pod_layout import LAUNCH_DIR, MAIN, PACKAGES, PREPARE, TERMINATION_LOG
from runtime.pod_literals import literal

GRACE_MARGIN_S = 30
"""What a wrapper needs on top of its component's own grace: the rest of its log, its verdict."""

INIT_REQUESTS = {"cpu": "10m", "memory": "64Mi"}
"""Less than any main container's, so that what runs for seconds reserves nothing for the run."""

_INSTALLER = ("python3", "-u", f"{LAUNCH_DIR}/packages.py")


def pod_template(
    group: JobGroup,
    groups: tuple[JobGroup, ...],
    placed: PlacedRun,
    *,
    job_index: int | None,
) -> Manifest:
    """Return the template of a group's pods.

    `groups` are all of the run; `job_index` is the number of the Job, none in a JobSet, whose Jobs
    share a template and are told apart by JobSet's own label.
    """
    labels = placed.labels(group.component) | {pod_names.LABEL_REPLICATED_JOB: group.name}
    if job_index is not None:
        labels[pod_names.LABEL_JOB_INDEX] = str(job_index)
    return {
        "metadata": {"labels": labels, "annotations": dict(ANNOTATIONS)},
        "spec": _spec(group, groups, placed, job_index),
    }


def _spec(
    group: JobGroup, groups: tuple[JobGroup, ...], placed: PlacedRun, job_index: int | None
) -> Manifest:
    offer = placed.kubernetes
    spec: Manifest = {
        "restartPolicy": "Never",
        "subdomain": placed.workload,
        # One variable a Service of the namespace would eat into the limit of argv and environment.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _grace_s(group),
        "securityContext": {
            "runAsUser": offer.run_as_user,
            "runAsGroup": offer.fs_group,
            "runAsNonRoot": True,
            "fsGroup": offer.fs_group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": _init_containers(group, placed, job_index),
        "containers": [_main(group, placed, job_index)],
        "volumes": pod_volumes(group, placed),
        "tolerations": tolerations(placed),
    }
    optional: Manifest = {
        "nodeSelector": node_selector(group, placed),
        "affinity": affinity(group, groups, placed),
        "imagePullSecrets": [{"name": name} for name in offer.image_pull_secrets],
        "priorityClassName": offer.priority_class,
    }
    if placed.is_gang and joins_gang(group, placed):
        optional["schedulingGroup"] = {"podGroupName": placed.workload}
    return spec | {key: value for key, value in optional.items() if value}


def joins_gang(group: JobGroup, placed: PlacedRun) -> bool:
    """Tell whether a group's pods are placed together with the run's GPU pods or not at all.

    Pods that must run where the GPU pods are cannot be placed before them, which the scheduler may
    try within a gang: they follow.
    """
    return group.has_gpus or not placed.follows_gpus


def _main(group: JobGroup, placed: PlacedRun, job_index: int | None) -> Manifest:
    ports = [{"name": port.name, "containerPort": port.number} for port in group.first.ports]
    container = _container(MAIN, group, placed, job_index=job_index)
    container |= {"command": _command("run", group), "resources": pod_resources(group, placed)}
    if ports:
        container["ports"] = ports
    return container | probes(group)


def _init_containers(group: JobGroup, placed: PlacedRun, job_index: int | None) -> list[Manifest]:
    """Return the init containers; packages come first, since a component's file needs them."""
    requests = {"requests": dict(INIT_REQUESTS)}
    prepare = _container(PREPARE, group, placed, job_index=job_index)
    prepare |= {"command": _command("prepare", group), "resources": requests}
    prepare["volumeMounts"] += other_run_mount(group, placed)
    if not installs_packages(group, placed):
        return [prepare]
    packages = _container(PACKAGES, group, placed, job_index=job_index)
    packages |= {
        "command": _command("packages", group),
        "args": [*_INSTALLER, *(literal(spec) for spec in placed.environments)],
        "resources": requests,
        # Where no verdict was written, the installer's own words are the reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return [packages, prepare]


def _container(name: str, group: JobGroup, placed: PlacedRun, *, job_index: int | None) -> Manifest:
    capabilities: dict[str, list[str]] = {"drop": ["ALL"]}
    if name == MAIN and has_rdma(group, placed):
        capabilities["add"] = ["IPC_LOCK"]  # RDMA pins the memory that the devices read
    container: Manifest = {
        "name": name,
        "image": placed.image,
        # A digest cannot change, and a tag that could not be resolved must be there already.
        "imagePullPolicy": "IfNotPresent",
        "env": environment(group, placed, job_index=job_index),
        "volumeMounts": volume_mounts(group, placed),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": capabilities},
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    }
    secrets = env_from(group, placed)
    return container | {"envFrom": secrets} if secrets else container


def _command(word: str, group: JobGroup) -> list[str]:
    return ["python3", "-u", f"{LAUNCH_DIR}/pod_entry.py", word, group.name]


def _grace_s(group: JobGroup) -> int:
    """Return the seconds between SIGTERM and SIGKILL: a trainer may be writing a checkpoint."""
    own = limits.TRAINER_GRACE_S if group.role == naming.TRAINER else limits.STOP_GRACE_S
    return int(own) + GRACE_MARGIN_S
