"""Stands in for `runtime.launch.local.prepare_local`: two-second programs, no torch.

The run's name in its TOML says how it behaves: `quick` ends well, `told` likewise once there is a
file `finish` in its run directory, `failing` ends with exit code 3, `long` goes on until it is
ended, `slow` takes its time to prepare and then goes on.
"""

import os
import sys
import time
from pathlib import Path

from runtime.artifacts import RunDirectory
from runtime.launch.addresses import local_addresses
from runtime.launch.components import build_components
from runtime.launch.environment import base_environment
from runtime.launch.local import LocalComponent
from runtime.plan import RunPlan

PROGRAM = Path(__file__).with_name("component.py")
SLOW_S = 4.0


def prepare(
    run: RunDirectory, plan: RunPlan, *, base_port: int, devices: tuple[str, ...]
) -> tuple[LocalComponent, ...]:
    """Return the plan's own components and ports, each as the one program."""
    assert len(devices) == plan.num_gpus
    (run.configs / "preparing").touch()
    if plan.name == "slow":
        time.sleep(SLOW_S)  # what is slow is the point
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
