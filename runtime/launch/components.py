"""Components: the processes (local) or pods (kubernetes) of a plan, with their ports and log files.

Pure; called by the printed plan, the local launch and the targets. Counting is done in
`runtime.plan`: here each counted thing gets a name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime import naming
from runtime.plan import RolePlan, RunPlan

RDZV = "rdzv"
BROADCAST = "broadcast"
HTTP = "http"
METRICS = "metrics"
RPC = "rpc"
SIDE_CHANNEL = "side-channel"
ZMQ = "zmq"
ZMQ_READY = "zmq-ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    """A port that a component binds: its name, and its number in a pod (prime-rl's own)."""

    name: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One process of a local run, or one pod: `pod` counts in the role, `rank` in the pod.

    `replica` is the inference replica that an engine's component belongs to.
    """

    name: str
    role: RolePlan
    pod: int = 0
    rank: int = 0
    replica: int = 0
    num_gpus: int = 0
    ports: tuple[Port, ...] = ()
    log: str


def build_components(plan: RunPlan) -> tuple[Component, ...]:
    """Return the components of a plan, in the order in which they are started."""
    found = [component for role in plan.roles for component in _of_role(plan, role)]
    order = (
        naming.INFERENCE,
        naming.ROUTER,
        naming.ENV_SERVER,
        naming.ORCHESTRATOR,
        naming.TRAINER,
    )
    # Replica by replica, prefill before decode: the order of admin URLs, and so of NCCL ranks.
    return tuple(
        sorted(found, key=lambda component: (order.index(component.role.role), component.replica))
    )


def _of_role(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    if role.role == naming.TRAINER:
        yield from _trainers(plan, role)
    elif role.role == naming.INFERENCE:
        yield from _engines(plan, role) if plan.target == "local" else _engine_pods(plan, role)
    elif role.role == naming.ROUTER:
        ports = (
            Port(name=HTTP, number=plan.ports.router),
            Port(name=METRICS, number=plan.ports.router_metrics),
        )
        yield Component(name=naming.ROUTER, role=role, ports=ports, log="inference/router.log")
    elif role.role == naming.ORCHESTRATOR:
        yield Component(
            name=naming.ORCHESTRATOR, role=role, ports=_rollout_ports(plan), log="orchestrator.log"
        )
    else:
        yield Component(
            name=naming.component_name(role.role, split=role.split, source=role.source),
            role=role,
            ports=(Port(name=ZMQ, number=plan.ports.env_servers + role.index),),
            log=f"envs/{role.split}/{role.source}.log",
        )


def _rollout_ports(plan: RunPlan) -> tuple[Port, ...]:
    if plan.rollout_transport != "zmq" or plan.target == "local":
        return ()
    return (
        Port(name=ZMQ, number=plan.ports.rollouts),
        Port(name=ZMQ_READY, number=plan.ports.rollouts + 1),
    )


def _trainers(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    ports = [Port(name=RDZV, number=plan.ports.rendezvous)]
    metrics: list[Port] = []
    if plan.target != "local":
        if plan.weight_broadcast == "nccl":
            ports.append(Port(name=BROADCAST, number=plan.ports.broadcast))
        if plan.ports.trainer_metrics is not None:
            metrics = [Port(name=METRICS, number=plan.ports.trainer_metrics)]
    for pod in range(role.num_pods):
        yield Component(
            name=naming.component_name(role.role, index=pod),
            role=role,
            pod=pod,
            num_gpus=role.gpus_per_pod,
            ports=(*ports, *metrics) if pod == 0 else tuple(metrics),
            log="trainer.log" if role.num_pods == 1 else f"trainer/node_{pod}.log",
        )


def _engine_pods(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    """Yield one component a pod; rank k of it listens on the first engine port + k."""
    first = {"prefill": plan.ports.prefill, "decode": plan.ports.decode}.get(
        role.part, plan.ports.engine
    )
    alone = role.num_pods == 1 and not role.part
    for pod in range(role.num_pods):
        name = naming.component_name(role.role, index=pod, part=role.part)
        ports = [
            Port(name=f"{HTTP}-{rank}", number=first + rank) for rank in range(role.data_parallel)
        ]
        if role.part:
            ports += [
                Port(name=f"{SIDE_CHANNEL}-{rank}", number=plan.ports.side_channel + rank)
                for rank in range(role.data_parallel)
            ]
        if role.group_size > 1 and pod % role.pods_per_group == 0:
            ports.append(Port(name=RPC, number=plan.ports.data_parallel_rpc))
        yield Component(
            name=name,
            role=role,
            pod=pod,
            replica=pod // role.pods_per_replica,
            num_gpus=role.gpus_per_pod,
            ports=tuple(ports),
            log="inference.log" if alone else f"inference/{_node(role, pod)}.log",
        )


def _engines(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    """Yield one component an engine, as the local target starts them."""
    alone = plan.num_engines == 1
    for engine in range(role.num_engines):
        pod, rank = divmod(engine, role.data_parallel)
        yield Component(
            name=naming.component_name(role.role, index=engine, part=role.part),
            role=role,
            pod=pod,
            rank=rank,
            replica=pod // role.pods_per_replica,
            num_gpus=role.tensor_parallel,
            ports=(Port(name=f"{HTTP}-{rank}", number=plan.ports.engine + rank),),
            log="inference.log" if alone else f"inference/{_node(role, pod)}_rank{rank}.log",
        )


def _node(role: RolePlan, pod: int) -> str:
    return f"{role.part}_node_{pod}" if role.part else f"node_{pod}"
