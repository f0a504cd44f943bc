"""Stands in for `runtime.launch.local.prepare_local`: every component is `sleeper.py`."""

import os
import sys
from pathlib import Path

from runtime.artifacts import RunDirectory
from runtime.launch.addresses import local_addresses
from runtime.launch.components import build_components
from runtime.launch.environment import base_environment
from runtime.launch.local import LocalComponent
from runtime.plan import RunPlan

PROGRAM = Path(__file__).with_name("sleeper.py")


def prepare(
    run: RunDirectory, plan: RunPlan, *, base_port: int, devices: tuple[str, ...]
) -> tuple[LocalComponent, ...]:
    """Return the plan's own components and ports, each as the one program."""
    assert len(devices) == plan.num_gpus
    components = build_components(plan)
    book = local_addresses(components, base_port)
    made = []
    for component in components:
        ports = tuple(book[component.name, port.name].port for port in component.ports)
        role = component.role.role
        argv = (sys.executable, "-I", "-S", str(PROGRAM), role, plan.name, *map(str, ports))
        made.append(
            LocalComponent(
                name=component.name,
                role=role,
                argv=argv,
                env=base_environment(os.environ, python=sys.executable),
                ports=ports,
                log=component.log,
            )
        )
    return tuple(made)
