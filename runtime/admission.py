"""Admission: everything that refuses a run before a GPU is held; pure, every reason at once.

Works on a plan, a profile and a snapshot of what exists, and returns problems with stable codes
(`runtime.refusals`); nothing is looked up here. Every entrance calls it: `paddock plan`, `paddock
stack new`, the Pulumi program, the control plane.
"""

from collections.abc import Iterator

from runtime import limits
from runtime.cluster import ClusterProfile
from runtime.errors import Problem
from runtime.plan import RunPlan
from runtime.refusals import needs, placing
from runtime.refusals.code import Code
from runtime.refusals.user import user_limits
from runtime.situation import Snapshot, UserLimits

__all__ = [
    "NOT_CHECKED",
    "Code",
    "Snapshot",
    "UserLimits",
    "admission_problems",
    "admission_warnings",
    "capacity_problem",
]

NOT_CHECKED = ("taskset", "model", "capacity")
"""What only a cluster can answer; without one `paddock plan` prints these as not checked."""


def admission_problems(
    plan: RunPlan,
    *,
    profile: ClusterProfile | None = None,
    snapshot: Snapshot | None = None,
    user: UserLimits | None = None,
    max_gpus: int = limits.MAX_GPUS_PER_RUN,
) -> list[Problem]:
    """Return every reason that refuses the run; capacity is not one (see `capacity_problem`).

    Without a profile only what holds on any cluster is judged. `user` is None by hand: wallet and
    queue bind only through the control plane.
    """
    problems = [
        *placing.gpu_cap(plan, profile, user, max_gpus),
        *needs.image_tag(plan),
        *placing.ports(plan),
        *placing.unplaced(plan, profile),
    ]
    if user is not None:
        problems += user_limits(plan, user)
    if profile is None:
        return [*problems, *placing.known_gpu_type(plan)]
    problems += [
        *placing.cluster_gpus(plan, profile),
        *placing.target(plan, profile),
        *needs.storage(plan, profile),
        *needs.volume(plan, profile),
        *needs.endpoints(plan, profile),
    ]
    if snapshot is not None:
        problems += [
            *needs.model(plan, profile, snapshot),
            *needs.tasksets(plan, profile, snapshot),
            *needs.first_checkpoint(plan, snapshot),
        ]
    return problems


def admission_warnings(
    plan: RunPlan, profile: ClusterProfile | None = None, snapshot: Snapshot | None = None
) -> list[str]:
    """Return what may fail at start but does not refuse the run."""
    if profile is None:
        return [*_open_on_a_cluster(plan)]
    if snapshot is None:
        return []
    if profile.target == "local" and snapshot.requested_environments:
        return [
            f"environments: not installed on cluster {profile.name}, whose embedded engine has "
            "those that it carries"
        ]
    if profile.environments_closed or profile.target == "local":
        return []
    return [
        f"taskset {taskset}: not known to be in the image of cluster {profile.name}"
        for taskset in needs.unknown_tasksets(plan, snapshot)
    ]


def _open_on_a_cluster(plan: RunPlan) -> Iterator[str]:
    """Say what a cluster will refuse, or needs a server for; nobody can tell without one."""
    for name in plan.unplaced:
        problem = placing.unplaced_problem(name)
        yield f"{problem.path}: {problem.message}; a cluster may refuse it"
    for endpoint in plan.endpoints:
        if endpoint.is_loopback:
            yield f"{endpoint.path}: {endpoint.url} is the pod's own address on a cluster"


def capacity_problem(plan: RunPlan, snapshot: Snapshot) -> Problem | None:
    """Return why the run does not fit right now, or None; never a reason to refuse a preview."""
    gpu_type = plan.pool.gpu_type
    if gpu_type is None:
        return None
    free = snapshot.num_free_gpus.get(gpu_type, 0)
    if free >= plan.num_gpus:
        return None
    is_local = plan.target == "local"
    return Problem(
        message=f"needs {plan.num_gpus} {gpu_type} {'slots' if is_local else 'GPUs'}, "
        f"{free} are free now",
        fix="wait for a run to end, or stop one" if is_local else "it waits for its turn",
        code=Code.CAPACITY,
    )
