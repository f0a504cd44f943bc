"""Stands in for `runtime.launch.local.prepare_local`: components from `configs/programs.json`."""

import json
import os

from runtime.artifacts import RunDirectory
from runtime.launch.local import LocalComponent
from runtime.plan import RunPlan


def prepare(
    run: RunDirectory, plan: RunPlan, *, base_port: int, devices: tuple[str, ...]
) -> tuple[LocalComponent, ...]:
    """Return one component a program; each gets one port of the block."""
    programs = json.loads((run.configs / "programs.json").read_text())
    return tuple(
        LocalComponent(
            name=name,
            role=name.partition("-")[0],
            argv=tuple(argv),
            env={"PATH": os.environ["PATH"], "PORT": str(base_port + index)},
            ports=(base_port + index,),
            log=f"{name}.log",
        )
        for index, (name, argv) in enumerate(programs.items())
    )
