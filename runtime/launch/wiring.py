"""Wiring: the addresses and world sizes that go into the components' files of one run.

Pure. Upstream's defaults are localhost and, on a single node, the wrong world size; here both come
from the plan and the address book. Printed by `paddock plan`; who writes files of a run reads it.
"""

from dataclasses import dataclass

from runtime import naming
from runtime.config import MultiNodeDeployment, RLConfig
from runtime.launch.addresses import AddressBook, engine_addresses
from runtime.launch.components import BROADCAST, HTTP, ZMQ, Component
from runtime.plan import RunPlan

BIND_ALL = "0.0.0.0"  # noqa: S104 - bound inside a pod of the run


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """A socket between components: where one side binds it, and where the others connect."""

    bind: str
    connect: str
    port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wiring:
    """What the files of a run's components say about each other.

    `admin_urls` are the engines in rank order (replica by replica, prefill before decode, pod by
    pod, rank by rank), which fixes their NCCL ranks; `admin_roles` names the part of each where
    prefill and decode are apart. URLs are empty where the policy is served elsewhere, channels
    where weights or rollouts travel by files. `env_servers` maps (split, source) to an address.
    """

    base_url: str
    admin_urls: tuple[str, ...]
    admin_roles: tuple[str, ...]
    inference_world_size: int
    trainer_world_size: int
    num_train_workers: int
    weights: Channel | None
    rollouts: Channel | None
    env_servers: dict[tuple[str, str], str]


def wire(plan: RunPlan, components: tuple[Component, ...], book: AddressBook) -> Wiring:
    """Return the wiring of a run with these addresses."""
    engines = engine_addresses(components, book)
    router = book.get((naming.ROUTER, HTTP))
    entry = router or (engines[0] if engines else None)
    return Wiring(
        base_url=entry.api if entry is not None else "",
        admin_urls=tuple(engine.api for engine in engines),
        admin_roles=tuple(
            component.role.part
            for component in components
            if component.role.part and component.role.role == naming.INFERENCE
            for port in component.ports
            if port.name.startswith(f"{HTTP}-")
        ),
        inference_world_size=plan.inference_world_size,
        trainer_world_size=plan.trainer_world_size,
        num_train_workers=plan.num_train_workers,
        weights=_channel(book, naming.component_name(naming.TRAINER), BROADCAST),
        rollouts=_channel(book, naming.ORCHESTRATOR, ZMQ),
        env_servers={
            (component.role.split, component.role.source): book[component.name, ZMQ].tcp
            for component in components
            if component.role.role == naming.ENV_SERVER
        },
    )


def pod_notices(config: RLConfig, plan: RunPlan) -> list[str]:
    """Return what pods do differently from what the file says, one sentence each."""
    found = []
    deployment, inference = config.deployment, config.inference
    if isinstance(deployment, MultiNodeDeployment) and deployment.orchestrator_on_inference:
        found.append("deployment.orchestrator_on_inference: the orchestrator has its own pod")
    if inference is not None and inference.router is None and plan.num_engines > 1:
        found.append(
            f"inference.router: a router stands before the {plan.num_engines} engines anyway"
        )
    return found


def _channel(book: AddressBook, component: str, port: str) -> Channel | None:
    address = book.get((component, port))
    if address is None:
        return None
    return Channel(bind=BIND_ALL, connect=address.host, port=address.port)
