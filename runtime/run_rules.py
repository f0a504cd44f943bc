"""What RunSpec decides and does: refusals of a changed or ended run, begin and end of an attempt.

`changed_settings` is pure; the rest is thin calls into the target's own runtime. Called by the
dynamic provider `infra.run_spec`, which holds no logic.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.artifacts import RunDirectory
from runtime.errors import PaddockError
from runtime.local_state import LocalRun
from runtime.record import over_message, read_record
from runtime.supervisor_client import StartRun, check_start, release_run, start_run
from runtime.supervisor_wire import PREPARE

Inputs = Mapping[str, Any]  # Any: property values of the resource

CONFIG_KEYS = "configKeys"
"""Input that maps each dotted TOML key to a short digest of its value: a change has a name."""

PREPARE_VARIABLE = "PADDOCK_PREPARE"
"""Names what prepares a local run; tests put two-second programs behind the wrapper."""

_SETTINGS = {
    "cluster": "paddock:cluster",
    "runPath": "paddock:volume, or the cluster's paddock:runsPath",
    "gpuType": "paddock:gpuType",
    "imageTag": "paddock:imageTag",
    "nullHarness": "paddock:nullHarness",
    "envDigest": "paddock:env",
}


def changed_settings(before: Inputs, after: Inputs) -> list[str]:
    """Return the names of what differs, TOML keys first, then stack settings; never values."""
    old_keys, new_keys = before.get(CONFIG_KEYS) or {}, after.get(CONFIG_KEYS) or {}
    changed = sorted(
        key for key in {*old_keys, *new_keys} if old_keys.get(key) != new_keys.get(key)
    )
    if not changed and before.get("configDigest") != after.get("configDigest"):
        changed = ["the TOML's text"]
    return changed + [
        setting for name, setting in _SETTINGS.items() if before.get(name) != after.get(name)
    ]


def refusal(before: Inputs, after: Inputs) -> str | None:
    """Return why these inputs are refused, or None; `before` is empty for a new run."""
    run_id, attempt = str(after["runId"]), int(after["attempt"])
    if before and int(before["attempt"]) > attempt:
        return (
            f"{run_id} is at attempt {int(before['attempt'])}, attempt {attempt} is past: "
            f"pulumi config set paddock:attempt {int(before['attempt'])}"
        )
    record = read_record(RunDirectory(Path(after["runPath"])).record)
    if record is not None and record.is_over and record.attempt == attempt:
        return over_message(run_id, attempt, what=f"is over ({record.state})")
    if before and int(before["attempt"]) == attempt:
        changed = changed_settings(before, after)
        if changed:
            return (
                f"{run_id} is live at attempt {attempt} and its config was changed: "
                f"{', '.join(changed)}. Nothing was touched. Put it back, or stop the run "
                f"(`paddock stop {run_id}`) and start a new attempt (`paddock resume {run_id}`)"
            )
        return None
    if before and record is not None and not record.is_over and record.attempt < attempt:
        return None  # asked for openly: `update` ends the live attempt first
    try:
        check_start(_start_request(after))
    except PaddockError as error:
        return str(error)
    return None


def place_attempt(inputs: Inputs) -> None:
    """Claim the run's place and start its supervisor; refused where it does not fit."""
    start_run(_start_request(inputs))


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
    )


def _local_run(inputs: Inputs) -> LocalRun:
    return LocalRun(
        state_path=Path(inputs["statePath"]),
        run_path=Path(inputs["runPath"]),
        run_id=str(inputs["runId"]),
        attempt=int(inputs["attempt"]),
    )
