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
ZMQ = "zmq"
ZMQ_READY = "zmq-ready"

# prime-rl's own numbers (docs/design.md, launch): engines 8100 up, router 8000, torchrun 29500,
# NCCL store 29501, rollouts 5555 and 5556, env servers 5000 up.
_ENGINE_PORT = 8100
_ROUTER_PORT = 8000
_RDZV_PORT = 29500
_BROADCAST_PORT = 29501
_ROLLOUT_PORT = 5555
_ENV_PORT = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    """A port that a component binds: its name, and prime-rl's number for it."""

    name: str
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One process of a local run, or one pod: `pod` counts in the role, `rank` in the pod."""

    name: str
    role: RolePlan
    pod: int = 0
    rank: int = 0
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
    return tuple(sorted(found, key=lambda component: order.index(component.role.role)))


def _of_role(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    if role.role == naming.TRAINER:
        yield from _trainers(plan, role)
    elif role.role == naming.INFERENCE:
        yield from _engines(role) if plan.target == "local" else _inference_pods(role)
    elif role.role == naming.ROUTER:
        port = Port(name=HTTP, number=_ROUTER_PORT)
        yield Component(name=naming.ROUTER, role=role, ports=(port,), log="inference/router.log")
    elif role.role == naming.ORCHESTRATOR:
        yield Component(
            name=naming.ORCHESTRATOR, role=role, ports=_rollout_ports(plan), log="orchestrator.log"
        )
    else:
        yield Component(
            name=naming.component_name(role.role, split=role.split, source=role.source),
            role=role,
            ports=(Port(name=ZMQ, number=_ENV_PORT + role.index),),
            log=f"envs/{role.split}/{role.source}.log",
        )


def _rollout_ports(plan: RunPlan) -> tuple[Port, ...]:
    if plan.rollout_transport != "zmq" or plan.target == "local":
        return ()
    return (
        Port(name=ZMQ, number=_ROLLOUT_PORT),
        Port(name=ZMQ_READY, number=_ROLLOUT_PORT + 1),
    )


def _trainers(plan: RunPlan, role: RolePlan) -> Iterator[Component]:
    ports = [Port(name=RDZV, number=_RDZV_PORT)]
    if plan.weight_broadcast == "nccl" and plan.target != "local":
        ports.append(Port(name=BROADCAST, number=_BROADCAST_PORT))
    for pod in range(role.num_pods):
        yield Component(
            name=naming.component_name(role.role, index=pod),
            role=role,
            pod=pod,
            num_gpus=role.gpus_per_pod,
            ports=tuple(ports) if pod == 0 else (),
            log="trainer.log" if role.num_pods == 1 else f"trainer/node_{pod}.log",
        )


def _inference_pods(role: RolePlan) -> Iterator[Component]:
    for pod in range(role.num_pods):
        yield Component(
            name=naming.component_name(role.role, index=pod),
            role=role,
            pod=pod,
            num_gpus=role.gpus_per_pod,
            ports=tuple(
                Port(name=f"{HTTP}-{rank}", number=_ENGINE_PORT + rank)
                for rank in range(role.data_parallel)
            ),
            log="inference.log" if role.num_pods == 1 else f"inference/node_{pod}.log",
        )


def _engines(role: RolePlan) -> Iterator[Component]:
    alone = role.num_engines == 1
    for engine in range(role.num_engines):
        pod, rank = divmod(engine, role.data_parallel)
        yield Component(
            name=naming.component_name(role.role, index=engine),
            role=role,
            pod=pod,
            rank=rank,
            num_gpus=role.tensor_parallel,
            ports=(Port(name=f"{HTTP}-{rank}", number=_ENGINE_PORT + rank),),
            log="inference.log" if alone else f"inference/node_{pod}_rank{rank}.log",
        )
