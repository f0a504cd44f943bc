"""The launch document: what the programs in a run's pods are told, as launch.json of the ConfigMap.

Pure; made by the kubernetes target, read by `pod_entry.py`, `resolve.py` and `ranks.py`, which run
in the image without paddock. It holds addresses, counts and command lines, and no value of a
secret. What it says of a component is the same in every attempt but for the names of the hosts.
"""

from dataclasses import replace
from typing import Any

from runtime import naming, pod_layout, pod_names
from runtime.config import RLConfig
from runtime.launch.addresses import pod_addresses
from runtime.launch.commands import Site, component_commands, config_file
from runtime.launch.components import Component, build_components
from runtime.launch.wiring import Channel, Wiring, wire
from runtime.plan import RolePlan, RunPlan
from runtime.resume_from import parse_resume_from

Json = dict[str, Any]  # Any: a JSON object on its way into a file


def launch_document(
    plan: RunPlan,
    config: RLConfig,
    components: tuple[Component, ...],
    *,
    num_processes_per_node: int | None = None,
) -> Json:
    """Return the content of launch.json for one attempt.

    `num_processes_per_node` is a setting of tests: so many trainer processes a pod, and one engine
    of one process, whatever the plan's GPUs; `process_notice` says so.
    """
    if num_processes_per_node is not None:
        plan = _with_processes(plan, num_processes_per_node)
        components = build_components(plan)
    book = pod_addresses(plan, components)
    site = Site(run_path=pod_layout.RUN_DIR, book=book, engine="prime-rl")
    return {
        "run_id": plan.run_id,
        "attempt": plan.attempt,
        "max_steps": plan.max_steps,
        "run_dir": pod_layout.RUN_DIR,
        "gate": True,
        "resume": "last" if _goes_on(plan) else "as written",
        "clean_past": _clean_past(plan, config),
        "checkpoint_parts": _checkpoint_parts(config),
        "first_checkpoint": _first_checkpoint(plan, config),
        "wiring": _wiring(wire(plan, components, book)),
        "trainer_metrics_port": plan.ports.trainer_metrics,
        "pods": {
            pod_names.pod_key(component): _pod(component, site, plan) for component in components
        },
    }


def process_notice(num_processes_per_node: int) -> str:
    """Return what the setting of tests changes, for whoever dispatches the run."""
    return (
        f"processesPerNode {num_processes_per_node}: a test setting, a trainer pod runs "
        f"{num_processes_per_node} process(es) and an inference pod one, whatever their GPUs"
    )


def _with_processes(plan: RunPlan, number: int) -> RunPlan:
    roles = tuple(_scaled(role, number) for role in plan.roles)
    trainers = sum(role.num_gpus for role in roles if role.role == naming.TRAINER)
    return replace(plan, roles=roles, num_train_workers=trainers)


def _scaled(role: RolePlan, number: int) -> RolePlan:
    if role.role == naming.TRAINER:
        return replace(role, gpus_per_pod=number)
    if role.role == naming.INFERENCE:
        return replace(role, gpus_per_pod=1, tensor_parallel=1, data_parallel=1)
    return role


def _clean_past(plan: RunPlan, config: RLConfig) -> str | int:
    """Return which steps of rollouts/ and broadcasts/ are stale, as prime-rl's launcher sees it.

    "start": all of them; "last": those after the newest checkpoint; a number: those after it.
    """
    if _goes_on(plan):
        return "last"
    if config.resume is None:
        return "start"
    return "last" if config.resume.step is None else config.resume.step


def _goes_on(plan: RunPlan) -> bool:
    """Tell whether the run starts with its newest checkpoint, or with another run's."""
    return plan.attempt > 1 or plan.resume_from is not None


def _first_checkpoint(plan: RunPlan, config: RLConfig) -> Json | None:
    """Return what `first_checkpoint.py` puts into the run directory, None where nothing."""
    if plan.resume_from is None:
        return None
    wanted = parse_resume_from(plan.resume_from)
    return {
        "run": wanted.run_id,
        "step": wanted.step,
        "from": pod_layout.OTHER_RUN_DIR,
        "parts": _checkpoint_parts(config),
        "max_steps": plan.max_steps,
    }


def _checkpoint_parts(config: RLConfig) -> list[str]:
    """Return the folders of a whole checkpoint in the run directory."""
    ckpt = config.trainer.ckpt
    elsewhere = ckpt is not None and ckpt.output_dir is not None
    return [naming.ORCHESTRATOR] if elsewhere else [naming.TRAINER, naming.ORCHESTRATOR]


def _pod(component: Component, site: Site, plan: RunPlan) -> Json:
    role = component.role
    commands = component_commands(component, site)
    is_router = role.role == naming.ROUTER
    return {
        "component": component.name,
        "role": role.role,
        "log": component.log,
        "config": None if is_router else config_file(component),
        "split": role.split,
        "source": role.source,
        "num_gpus": component.num_gpus,
        "commands": [
            {"argv": list(command.argv), "env": {**_shared_wandb(role.role, plan), **command.env}}
            for command in commands
            if command.argv
        ],
        "files": {
            command.overrides_path: command.overrides
            for command in commands
            if command.overrides_path
        },
    }


def _shared_wandb(role: str, plan: RunPlan) -> dict[str, str]:
    """Return what makes trainer and orchestrator log to one W&B run, as prime-rl's launcher does.

    The orchestrator is prime-rl's default for who creates and who finishes it.
    """
    if role not in {naming.TRAINER, naming.ORCHESTRATOR}:
        return {}
    return {
        "WANDB_SHARED_MODE": "1",
        "WANDB_RUN_ID": plan.run_id,
        "WANDB_SHARED_LABEL": role,
    }


def _wiring(wiring: Wiring) -> Json:
    return {
        "base_url": wiring.base_url,
        "admin_urls": list(wiring.admin_urls),
        "admin_roles": list(wiring.admin_roles),
        "inference_world_size": wiring.inference_world_size,
        "trainer_world_size": wiring.trainer_world_size,
        "num_train_workers": wiring.num_train_workers,
        "weights": _channel(wiring.weights),
        "rollouts": _channel(wiring.rollouts),
        "env_servers": {
            f"{split}/{source}": address for (split, source), address in wiring.env_servers.items()
        },
    }


def _channel(channel: Channel | None) -> Json | None:
    if channel is None:
        return None
    return {"bind": channel.bind, "connect": channel.connect, "port": channel.port}
