"""The printed plan: roles, pods, commands, ports, files, volumes and price of a RunPlan, as rows.

Pure; `paddock plan` prints it as text or JSON, a control plane may answer with it. Without a
cluster the commands are those of prime-rl's image, with its own port numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime import naming
from runtime.gpu_choice import list_price_range
from runtime.launch.addresses import AddressBook, local_addresses, pod_addresses
from runtime.launch.commands import Command, Site, component_commands, config_file
from runtime.launch.components import Component, build_components
from runtime.launch.wiring import Channel, Wiring, wire
from runtime.plan import RolePlan, RunPlan

EXAMPLE_PORT_BASE = 20_000
"""Local ports are chosen at start; the printed plan counts from here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentRow:
    """One line of the printed plan; `commands` has one entry a process."""

    name: str
    role: str
    num_gpus: int
    ports: tuple[int, ...]
    config: str
    log: str
    commands: tuple[Command, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command line of the first process."""
        return self.commands[0].argv


def component_rows(plan: RunPlan, *, run_path: str) -> list[ComponentRow]:
    """Return one row a component, in the order of starting."""
    components = build_components(plan)
    book = _addresses(plan, components)
    engine = "embedded" if plan.target == "local" else "prime-rl"
    site = Site(run_path=run_path, book=book, engine=engine)
    return [
        ComponentRow(
            name=component.name,
            role=component.role.role,
            num_gpus=component.num_gpus,
            ports=tuple(book[component.name, port.name].port for port in component.ports),
            config="" if component.role.role == naming.ROUTER else config_file(component),
            log=component.log,
            commands=component_commands(component, site),
        )
        for component in components
    ]


def plan_wiring(plan: RunPlan) -> Wiring:
    """Return the addresses and world sizes that the plan leads to."""
    components = build_components(plan)
    return wire(plan, components, _addresses(plan, components))


def _addresses(plan: RunPlan, components: tuple[Component, ...]) -> AddressBook:
    if plan.target == "local":
        return local_addresses(components, EXAMPLE_PORT_BASE)
    return pod_addresses(plan, components)


def price_text(plan: RunPlan) -> str:
    """Return what the run costs an hour, and until when."""
    if plan.price_usd_per_hour is not None:
        price = f"${plan.price_usd_per_hour:.2f}/hour"
    else:
        low, high = list_price_range(plan.num_gpus)
        price = f"${low:.2f} to ${high:.2f}/hour at list prices (no GPU type chosen)"
    if plan.max_steps is None:
        return f"no end: {price} until stopped"
    return f"{price} for {plan.max_steps} steps"


def plan_report(
    plan: RunPlan, *, run_path: str, notices: Sequence[str], not_checked: Sequence[str]
) -> dict[str, Any]:
    """Return the whole report as a JSON object."""
    return {
        "runId": plan.run_id,
        "attempt": plan.attempt,
        "name": plan.name,
        "target": plan.target,
        "deployment": plan.deployment,
        "imageTag": plan.image_tag,
        "gpuType": plan.pool.gpu_type,
        "numGpus": plan.num_gpus,
        "numNodes": plan.pool.num_nodes,
        "gpusPerNode": plan.pool.gpus_per_node,
        "numPods": plan.num_pods,
        "roles": [_role(role) for role in plan.roles],
        "components": [_row(row) for row in component_rows(plan, run_path=run_path)],
        **_wiring(plan_wiring(plan)),
        "endpoints": [
            {"path": one.path, "url": one.url, "model": one.model} for one in plan.endpoints
        ],
        "model": plan.model,
        "lora": plan.lora,
        "tasksets": list(plan.tasksets),
        "environments": list(plan.environments),
        "maxSteps": plan.max_steps,
        "weightBroadcast": plan.weight_broadcast,
        "rolloutTransport": plan.rollout_transport,
        "checkpoints": plan.checkpoints,
        "volume": plan.volume,
        "runPath": run_path,
        "pricePerHour": plan.price_usd_per_hour,
        "price": price_text(plan),
        "notices": list(notices),
        "notChecked": list(not_checked),
    }


def _role(role: RolePlan) -> dict[str, Any]:
    return {
        "role": role.role,
        "part": role.part,
        "pods": role.num_pods,
        "gpusPerPod": role.gpus_per_pod,
        "gpus": role.num_gpus,
        "tensorParallel": role.tensor_parallel,
        "dataParallel": role.data_parallel,
        "replicas": role.num_replicas,
        "expertGroup": role.group_size,
        "source": role.source,
    }


def _row(row: ComponentRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "role": row.role,
        "gpus": row.num_gpus,
        "ports": list(row.ports),
        "config": row.config,
        "log": row.log,
        "argv": list(row.argv),
        "commands": [
            {
                "argv": list(command.argv),
                "env": command.env,
                "file": command.overrides_path,
                "content": command.overrides,
            }
            for command in row.commands
        ],
    }


def _wiring(wiring: Wiring) -> dict[str, Any]:
    return {
        "baseUrl": wiring.base_url,
        "adminUrls": list(wiring.admin_urls),
        "adminRoles": list(wiring.admin_roles),
        "worldSizes": {
            "trainer": wiring.trainer_world_size,
            "inference": wiring.inference_world_size,
            "trainWorkers": wiring.num_train_workers,
        },
        "weights": _channel(wiring.weights),
        "rollouts": _channel(wiring.rollouts),
        "envServers": [
            {"split": split, "source": source, "address": address}
            for (split, source), address in wiring.env_servers.items()
        ],
    }


def _channel(channel: Channel | None) -> dict[str, Any] | None:
    if channel is None:
        return None
    return {"bind": channel.bind, "connect": channel.connect, "port": channel.port}
