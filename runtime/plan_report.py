"""The printed plan: roles, pods, commands, ports, files, volumes and price of a RunPlan, as rows.

Pure; `paddock plan` prints it as text or JSON, a control plane may answer with it. Without a
cluster the commands are those of prime-rl's image, with its own port numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime import naming
from runtime.launch.addresses import AddressBook, local_addresses, pod_addresses
from runtime.launch.commands import Site, component_argv, config_file
from runtime.launch.components import Component, build_components
from runtime.plan import RunPlan, list_price_range

EXAMPLE_PORT_BASE = 20_000
"""Local ports are chosen at start; the printed plan counts from here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentRow:
    """One line of the printed plan."""

    name: str
    role: str
    num_gpus: int
    ports: tuple[int, ...]
    config: str
    log: str
    argv: tuple[str, ...]


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
            argv=component_argv(component, site),
        )
        for component in components
    ]


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
        "roles": [_role(plan, role.role, index) for index, role in enumerate(plan.roles)],
        "components": [_row(row) for row in component_rows(plan, run_path=run_path)],
        "model": plan.model,
        "tasksets": list(plan.tasksets),
        "maxSteps": plan.max_steps,
        "weightBroadcast": plan.weight_broadcast,
        "rolloutTransport": plan.rollout_transport,
        "checkpoints": plan.checkpoints,
        "runPath": run_path,
        "pricePerHour": plan.price_usd_per_hour,
        "price": price_text(plan),
        "notices": list(notices),
        "notChecked": list(not_checked),
    }


def _role(plan: RunPlan, name: str, index: int) -> dict[str, Any]:
    role = plan.roles[index]
    return {
        "role": name,
        "pods": role.num_pods,
        "gpusPerPod": role.gpus_per_pod,
        "gpus": role.num_gpus,
        "tensorParallel": role.tensor_parallel,
        "dataParallel": role.data_parallel,
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
    }
