"""Prepare a local run: write its split files and return the components ready to be started.

The one module of launch that touches the disk. Called by the supervisor, once an attempt, after the
run's slots and port block are claimed.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.checkpoints import last_checkpoint_step, step_of
from runtime.config import DispatchFlags, RLConfig, load_stored_config
from runtime.launch.addresses import local_addresses, num_ports
from runtime.launch.commands import Site, component_argv, component_environment
from runtime.launch.components import Component, build_components
from runtime.launch.environment import base_environment, device_environment
from runtime.launch.first_checkpoint import bring
from runtime.launch.split import LocalPlacement, split_local
from runtime.plan import RunPlan
from runtime.resume_from import parse_resume_from

TASKSETS = Path(__file__).resolve().parent.parent / "rl" / "tasksets"
"""Folder of the top-level packages that a taskset or harness id names."""

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalComponent:
    """A component ready to be started; `env` is the whole public environment of the process."""

    name: str
    role: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    ports: tuple[int, ...]
    log: str


def prepare_local(
    run: RunDirectory, plan: RunPlan, *, base_port: int, devices: tuple[str, ...]
) -> tuple[LocalComponent, ...]:
    """Write the run's split files and return its components in the order of starting.

    `devices` names one device a GPU of the plan: a CUDA id, or "" for a CPU slot. The port block
    is `num_local_ports(plan)` long and starts at `base_port`. Stale rollouts and broadcasts of an
    earlier attempt are removed as prime-rl's launcher does: all of them on a fresh start, those
    past the resume step otherwise. Raises MissingError where there is nothing to start with.
    """
    config = _config(run, plan)
    components = build_components(plan)
    book = local_addresses(components, base_port)
    goes_on = plan.attempt > 1 or plan.resume_from is not None
    _bring_first_checkpoint(run, plan)
    resume_step = last_checkpoint_step(run.checkpoints) if goes_on else None
    _remove_stale(run, resume_step if goes_on or config.resume is None else _KEEP_ALL)
    placement = LocalPlacement(
        run_path=str(run.path),
        model_path=plan.model_path or plan.model,
        resume=resume_step is not None,
    )
    files = split_local(config, plan, components, book=book, placement=placement)
    for relative, content in files.items():
        _write(run.configs / relative, json.dumps(content, indent=2))
    given = iter(devices)
    site = Site(run_path=str(run.path), book=book, engine="embedded", python=sys.executable)
    return tuple(
        LocalComponent(
            name=component.name,
            role=component.role.role,
            argv=component_argv(component, site),
            env=_environment(component, plan, config, given),
            ports=tuple(book[component.name, port.name].port for port in component.ports),
            log=component.log,
        )
        for component in components
    )


def num_local_ports(plan: RunPlan) -> int:
    """Return the length of the port block that a local run needs."""
    return num_ports(build_components(plan))


_KEEP_ALL = sys.maxsize


def _bring_first_checkpoint(run: RunDirectory, plan: RunPlan) -> None:
    """Put the checkpoint of another run of the volume into a run that starts with it."""
    if plan.resume_from is None:
        return
    wanted = parse_resume_from(plan.resume_from)
    first = {"run": wanted.run_id, "step": wanted.step, "max_steps": plan.max_steps, "parts": ()}
    bring(first, run.path.parent / wanted.run_id, run.path)


def _config(run: RunDirectory, plan: RunPlan) -> RLConfig:
    flags = DispatchFlags(image_tag=plan.image_tag, gpu_type=plan.pool.gpu_type)
    # unknown fields were judged at dispatch, by the cluster's setting
    return load_stored_config(
        run.toml.read_text(), source=str(run.toml), flags=flags, allow_unknown_fields=True
    ).config


def _environment(
    component: Component, plan: RunPlan, config: RLConfig, devices: Iterator[str]
) -> dict[str, str]:
    own = tuple(device for device in (next(devices) for _ in range(component.num_gpus)) if device)
    return {
        **base_environment(os.environ, python=sys.executable),
        **_OFFLINE,
        "PYTHONPATH": str(TASKSETS),
        **component_environment(component, plan, env_vars=_env_vars(component, config)),
        **device_environment(own),
    }


def _env_vars(component: Component, config: RLConfig) -> dict[str, str]:
    role = component.role.role
    if role == naming.TRAINER:
        return {**config.env_vars, **config.trainer.env_vars}
    if role == naming.INFERENCE:
        assert config.inference is not None
        return {**config.env_vars, **config.inference.env_vars}
    return {**config.env_vars, **config.orchestrator.env_vars}


def _remove_stale(run: RunDirectory, resume_step: int | None) -> None:
    for folder in (run.rollouts, run.broadcasts):
        for step in folder.glob("step_*"):
            number = step_of(step.name)
            if number is not None and (resume_step is None or number > resume_step):
                shutil.rmtree(step)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
