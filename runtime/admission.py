"""Admission: everything that refuses a run before a GPU is held; pure, every reason at once.

Works on a plan, a profile and a snapshot of what exists, and returns problems with stable codes;
nothing is looked up here. Every entrance calls it: `paddock plan`, `paddock stack new`, the Pulumi
program, the control plane.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime import gpus, limits, naming
from runtime.cluster import ClusterProfile
from runtime.errors import Problem
from runtime.plan import RunPlan

NOT_CHECKED = ("taskset", "model", "capacity")
"""What only a cluster can answer; without one `paddock plan` prints these as not checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What existed when admission was asked: free GPUs by type, models, tasksets.

    `model_path` is where the plan's model lies for the target, None where it was not found;
    `num_free_gpus` does not count the run's own slots as taken.
    """

    model_path: str | None
    tasksets: frozenset[str]
    num_free_gpus: dict[str, int]


def admission_problems(
    plan: RunPlan,
    *,
    profile: ClusterProfile | None = None,
    snapshot: Snapshot | None = None,
    max_gpus: int = limits.MAX_GPUS_PER_RUN,
) -> list[Problem]:
    """Return every reason that refuses the run; capacity is not one (see `capacity_problem`)."""
    problems = [*_gpu_cap(plan, profile, max_gpus)]
    if profile is None:
        return [*problems, *_known_gpu_type(plan)]
    problems += [*_cluster_gpus(plan, profile), *_target(plan, profile)]
    if snapshot is not None:
        problems += [*_model(plan, profile, snapshot), *_tasksets(plan, profile, snapshot)]
    return problems


def admission_warnings(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> list[str]:
    """Return what may fail at start but does not refuse the run."""
    if profile.environments_closed or profile.target == "local":
        return []
    return [
        f"taskset {taskset}: not known to be in the image of cluster {profile.name}"
        for taskset in plan.tasksets
        if taskset not in snapshot.tasksets
    ]


def capacity_problem(plan: RunPlan, snapshot: Snapshot) -> Problem | None:
    """Return why the run does not fit right now, or None; never a reason to refuse a preview."""
    gpu_type = plan.pool.gpu_type
    if gpu_type is None:
        return None
    free = snapshot.num_free_gpus.get(gpu_type, 0)
    if free >= plan.num_gpus:
        return None
    return Problem(
        message=f"needs {plan.num_gpus} {gpu_type} slots, {free} are free now",
        fix="wait for a run to end, or stop one",
        code="capacity",
    )


def _gpu_cap(plan: RunPlan, profile: ClusterProfile | None, max_gpus: int) -> Iterator[Problem]:
    cap = min(max_gpus, (profile.max_gpus_per_run if profile else None) or max_gpus)
    if plan.num_gpus > cap:
        parts = " + ".join(
            f"{role.num_gpus} {role.role}" for role in plan.roles if role.num_gpus > 0
        )
        yield Problem(
            loc=("deployment",),
            message=f"{parts} = {plan.num_gpus} GPUs, over the cap of {cap} GPUs a run",
            fix="use fewer nodes or replicas",
            code="gpu_cap",
        )


def _known_gpu_type(plan: RunPlan) -> Iterator[Problem]:
    gpu_type = plan.pool.gpu_type
    if gpu_type is not None and gpu_type not in gpus.GPU_TYPES:
        yield Problem(
            loc=("gpu_type",),
            message=f"{gpu_type!r} is no known GPU type ({', '.join(sorted(gpus.GPU_TYPES))})",
            code="gpu_type",
        )


def _cluster_gpus(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    offered = ", ".join(
        f"{offer.name} ({offer.num_nodes} x {offer.gpus_per_node})" for offer in profile.gpus
    )
    pool = plan.pool
    if pool.gpu_type is None:
        yield Problem(
            loc=("deployment",),
            message=f"no GPU type of cluster {profile.name} holds {pool.num_nodes} node(s) of "
            f"{pool.gpus_per_node} GPUs; it has {offered}",
            fix="use fewer GPUs, or another cluster",
            code="too_big",
        )
        return
    offer = profile.offer(pool.gpu_type)
    if offer is None:
        yield Problem(
            loc=("gpu_type",),
            message=f"cluster {profile.name} has no {pool.gpu_type}; it has {offered}",
            fix="leave gpu_type out for an auto-pick",
            code="gpu_type",
        )
    elif offer.gpus_per_node < pool.gpus_per_node or offer.num_nodes < pool.num_nodes:
        yield Problem(
            loc=("deployment",),
            message=f"{pool.num_nodes} node(s) of {pool.gpus_per_node} {offer.name} are asked, "
            f"cluster {profile.name} has {offer.num_nodes} of {offer.gpus_per_node}",
            fix="use fewer GPUs, or another cluster",
            code="too_big",
        )


def _target(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    if profile.target != "local":
        return
    if plan.deployment != "single_node":
        yield Problem(
            loc=("deployment", "type"),
            message="the local target is one machine: it runs single_node deployments only",
            fix='use type = "single_node", or a kubernetes cluster',
            code="deployment",
        )
    if plan.role(naming.INFERENCE) is None:
        yield Problem(
            loc=("inference",),
            message="the local target needs inference GPUs: the embedded engine has no fake data",
            fix="add [inference] and deployment.num_infer_gpus",
            code="inference",
        )


def _model(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> Iterator[Problem]:
    if snapshot.model_path is not None or profile.model_download:
        return
    on_volume = plan.model.startswith("/volume/")
    yield Problem(
        loc=("model", "name"),
        message=f"{plan.model} is not "
        + ("on the run's volume" if on_volume else f"in the model cache of {profile.name}"),
        fix="pass the volume that holds it with --volume"
        if on_volume
        else f"paddock models add {plan.model}, or give a folder or /volume/... path",
        code="model",
    )


def _tasksets(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> Iterator[Problem]:
    if not (profile.environments_closed or profile.target == "local"):
        return
    for taskset in plan.tasksets:
        if taskset not in snapshot.tasksets:
            known = ", ".join(sorted(snapshot.tasksets)) or "none"
            yield Problem(
                loc=("orchestrator", "train", "source"),
                message=f"taskset {taskset} is not installed on {profile.name}; it has {known}",
                fix="install the taskset's package, or use one that is there",
                code="taskset",
            )
