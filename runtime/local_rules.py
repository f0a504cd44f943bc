"""What RunSpec does on the local target: thin calls into the supervisor's client.

The rules that hold on every target are in `runtime.run_rules`, which calls this module.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.local_state import LocalRun
from runtime.record import read_record
from runtime.run_record import RunRecord
from runtime.supervisor_client import StartRun, check_start, release_run, start_run
from runtime.supervisor_wire import PREPARE

Inputs = Mapping[str, Any]  # Any: property values of the resource

PREPARE_VARIABLE = "PADDOCK_PREPARE"
"""Names what prepares a local run; tests put two-second programs behind the wrapper."""


def current_record(inputs: Inputs) -> RunRecord | None:
    """Return the run's record."""
    return read_record(RunDirectory(Path(inputs["runPath"])).record)


def check_attempt(inputs: Inputs, _record: RunRecord | None) -> None:
    """Raise a PaddockError when this attempt may not begin."""
    check_start(_start_request(inputs))


def place_attempt(inputs: Inputs) -> dict[str, str]:
    """Claim the run's place and start its supervisor; refused where it does not fit."""
    start_run(_start_request(inputs))
    return {}


def end_attempt(inputs: Inputs, *, reason: str) -> None:
    """End everything that the run owns up to this attempt, for another one to follow."""
    release_run(_local_run(inputs), reason=reason)


def destroy_run(inputs: Inputs) -> None:
    """End everything that the run owns, for good; works from these inputs alone."""
    release_run(_local_run(inputs), is_destroy=True)


def _start_request(inputs: Inputs) -> StartRun:
    return StartRun(
        run=_local_run(inputs),
        config_digest=str(inputs["configDigest"]),
        num_slots=int(inputs["numGpus"]),
        num_ports=int(inputs["numPorts"]),
        prepare=os.environ.get(PREPARE_VARIABLE) or PREPARE,
        is_repeated=bool(os.environ.get(naming.ENV_REPEATED_UPDATE)),
    )


def _local_run(inputs: Inputs) -> LocalRun:
    return LocalRun(
        state_path=Path(inputs["statePath"]),
        run_path=Path(inputs["runPath"]),
        run_id=str(inputs["runId"]),
        attempt=int(inputs["attempt"]),
    )
