"""Refusals of what is asked of the machines: GPUs, nodes, ports, and what cannot be placed."""

from collections.abc import Iterator

from runtime import gpu_choice, gpus, naming
from runtime.cluster import ClusterProfile
from runtime.errors import Problem
from runtime.launch.components import build_components
from runtime.outside import Unplaced
from runtime.plan import RunPlan
from runtime.pod_ports import MAX_PORT
from runtime.refusals.code import Code
from runtime.situation import UserLimits

_UNPLACED: dict[Unplaced, tuple[tuple[str, ...], str, str]] = {
    "llm-d": (
        ("inference", "router", "type"),
        "paddock does not place llm-d's scheduler and proxy yet",
        'use type = "vllm-router", or leave [inference.router] out',
    ),
    "nixl": (
        ("weight_broadcast", "host"),
        "nixl needs a ModelExpress server, which paddock does not start and no profile names",
        'name a server of yours in weight_broadcast.host, or use type = "nccl"',
    ),
    "pipeline_parallel": (
        ("inference", "vllm", "pipeline_parallel_size"),
        "prime-rl gives an engine tensor_parallel_size GPUs, so an engine of several pipeline "
        "stages has too few",
        "remove it, and raise tensor_parallel_size",
    ),
}


def gpu_cap(
    plan: RunPlan, profile: ClusterProfile | None, user: UserLimits | None, max_gpus: int
) -> Iterator[Problem]:
    """The GPUs of all pods are within the lowest of the caps."""
    caps = [max_gpus]
    if profile is not None and profile.max_gpus_per_run is not None:
        caps.append(profile.max_gpus_per_run)
    if user is not None:
        caps.append(user.max_gpus_per_run)
    cap = min(caps)
    if plan.num_gpus > cap:
        parts = " + ".join(
            f"{role.num_gpus} {' '.join((role.role, role.part)).strip()}"
            for role in plan.roles
            if role.num_gpus > 0
        )
        yield Problem(
            loc=("deployment",),
            message=f"{parts} = {plan.num_gpus} GPUs, over the cap of {cap} GPUs a run",
            fix="use fewer nodes or replicas",
            code=Code.GPU_CAP,
        )


def known_gpu_type(plan: RunPlan) -> Iterator[Problem]:
    """Without a cluster, an asked GPU type is at least one that exists."""
    gpu_type = plan.pool.gpu_type
    if gpu_type is not None and gpu_type not in gpus.GPU_TYPES:
        yield Problem(
            loc=("gpu_type",),
            message=f"{gpu_type!r} is no known GPU type ({', '.join(sorted(gpus.GPU_TYPES))})",
            code=Code.GPU_TYPE,
        )


def cluster_gpus(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    """The cluster has the GPU type, and enough nodes that are big enough."""
    offered = ", ".join(
        f"{offer.name} ({offer.num_nodes} x {offer.gpus_per_node})" for offer in profile.gpus
    )
    pool = plan.pool
    asked = f"{pool.num_nodes} node(s) of {pool.gpus_per_node} GPUs"
    if pool.gpu_type is None:
        yield Problem(
            loc=("deployment", "gpus_per_node"),
            message=f"no GPU type of cluster {profile.name} holds {asked}; it has {offered}",
            fix=_smaller(plan, profile),
            code=Code.TOO_BIG,
        )
        return
    offer = profile.offer(pool.gpu_type)
    if offer is None:
        yield Problem(
            loc=("gpu_type",),
            message=f"cluster {profile.name} has no {pool.gpu_type}; it has {offered}",
            fix="leave gpu_type out for an auto-pick",
            code=Code.GPU_TYPE,
        )
    elif not gpu_choice.fits(offer, num_nodes=pool.num_nodes, gpus_per_node=pool.gpus_per_node):
        yield Problem(
            loc=("deployment", "gpus_per_node"),
            message=f"{asked} are asked of {offer.name}, cluster {profile.name} has "
            f"{offer.num_nodes} of {offer.gpus_per_node}",
            fix=_smaller(plan, profile),
            code=Code.TOO_BIG,
        )


def _smaller(plan: RunPlan, profile: ClusterProfile) -> str:
    """Say how the run would fit: over several nodes where one is too small, else with less."""
    widest = max((offer.gpus_per_node for offer in profile.gpus), default=0)
    one_node = plan.deployment == "single_node" and profile.target != "local"
    if one_node and 0 < widest < plan.pool.gpus_per_node:
        sizes = [-(-role.num_gpus // widest) for role in plan.roles if role.num_gpus]
        train, infer = sizes[0], sum(sizes[1:])
        return (
            f'use type = "multi_node" with num_train_nodes = {train}, num_infer_nodes = {infer}, '
            f"gpus_per_node = {widest}"
        )
    return "use fewer GPUs, or another cluster"


def target(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    """The local target is one machine with an engine of its own."""
    if profile.target != "local":
        return
    if plan.deployment != "single_node":
        yield Problem(
            loc=("deployment", "type"),
            message="the local target is one machine: it runs single_node deployments only",
            fix='use type = "single_node", or a kubernetes cluster',
            code=Code.DEPLOYMENT,
        )
    if plan.role(naming.INFERENCE) is None:
        yield Problem(
            loc=("inference",),
            message="the local target needs inference GPUs: the embedded engine has no fake data",
            fix="add [inference] and deployment.num_infer_gpus",
            code=Code.INFERENCE,
        )


def unplaced(plan: RunPlan, profile: ClusterProfile | None) -> Iterator[Problem]:
    """What paddock cannot place is refused by its name; what only a cluster has, on a cluster."""
    for name in plan.unplaced:
        on_pods = profile is not None and profile.target != "local"
        has_server = profile is not None and profile.model_express is not None
        if name == "pipeline_parallel" or (on_pods and not (name == "nixl" and has_server)):
            yield unplaced_problem(name)


def unplaced_problem(name: Unplaced) -> Problem:
    """Return why something is not placed."""
    loc, message, fix = _UNPLACED[name]
    return Problem(loc=loc, message=message, fix=fix, code=Code.UNPLACED)


def ports(plan: RunPlan) -> Iterator[Problem]:
    """Every port of a pod exists, and is its only one; on the local target ports are claimed."""
    if plan.target == "local":
        return
    for component in build_components(plan):
        seen: dict[int, str] = {}
        for port in component.ports:
            if port.number > MAX_PORT or port.number in seen:
                clash = f"that of {seen[port.number]} too" if port.number in seen else "over 65535"
                yield Problem(
                    message=f"{component.name}: port {port.number} of {port.name} is {clash}",
                    fix="change the port in the file, or leave it out",
                    code=Code.PORTS,
                )
                break
            seen[port.number] = port.name
