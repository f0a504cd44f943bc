"""What RunSpec decides and does: refusals of a changed or ended run, begin and end of an attempt.

`changed_settings` is pure; the rest is the same order of questions on every target, with the
target's own answers: `runtime.local_rules`, `runtime.kubernetes_run`. Called by the dynamic
provider `infra.run_spec`, which holds no logic.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from runtime.errors import PaddockError
from runtime.run_record import RunRecord, over_message

Inputs = Mapping[str, Any]  # Any: property values of the resource

CONFIG_KEYS = "configKeys"
"""Input that maps each dotted TOML key to a short digest of its value: a change has a name."""

_SETTINGS = {
    "cluster": "paddock:cluster",
    "runPath": "paddock:volume, or the cluster's paddock:runsPath",
    "claim": "paddock:volume, or the cluster's paddock:runVolumeClaim",
    "gpuType": "paddock:gpuType",
    "imageTag": "paddock:imageTag",
    "imageRepository": "the cluster's paddock:image",
    "environments": "paddock:environments",
    "resumeFrom": "paddock:resumeFrom",
    "nullHarness": "paddock:nullHarness",
    "envDigest": "paddock:env",
    "context": "the cluster's paddock:context",
    "namespace": "the cluster's paddock:namespace",
}

_OBJECTS_KEY = "manifestDigest"
_OBJECTS = "what the cluster stack offers, or paddock's version: its objects would be others"


class Rules(Protocol):
    """What a target answers."""

    def current_record(self, inputs: Inputs) -> RunRecord | None:
        """Return the run's record."""
        ...

    def check_attempt(self, inputs: Inputs, _record: RunRecord | None) -> None:
        """Raise a PaddockError when this attempt may not begin."""
        ...

    def place_attempt(self, inputs: Inputs) -> dict[str, str]:
        """Open the attempt's record and claim its place; return outputs of the resource."""
        ...

    def end_attempt(self, inputs: Inputs, *, reason: str) -> None:
        """End everything that the run owns up to this attempt."""
        ...

    def destroy_run(self, inputs: Inputs) -> None:
        """End everything that the run owns, for good."""
        ...


def changed_settings(before: Inputs, after: Inputs) -> list[str]:
    """Return the names of what differs, TOML keys first, then stack settings; never values."""
    old_keys, new_keys = before.get(CONFIG_KEYS) or {}, after.get(CONFIG_KEYS) or {}
    changed = sorted(
        key for key in {*old_keys, *new_keys} if old_keys.get(key) != new_keys.get(key)
    )
    if not changed and before.get("configDigest") != after.get("configDigest"):
        changed = ["the TOML's text"]
    changed += [
        setting for name, setting in _SETTINGS.items() if before.get(name) != after.get(name)
    ]
    if not changed and before.get(_OBJECTS_KEY) != after.get(_OBJECTS_KEY):
        return [_OBJECTS]  # named last, since every other change shows in the objects too
    return changed


def refusal(before: Inputs, after: Inputs) -> str | None:
    """Return why these inputs are refused, or None; `before` is empty for a new run."""
    try:
        return _refusal(before, after, _rules(after))
    except PaddockError as error:
        return str(error)


def current_record(inputs: Inputs) -> RunRecord | None:
    """Return the run's record; works from where the run is placed alone."""
    return _rules(inputs).current_record(inputs)


def place_attempt(inputs: Inputs) -> dict[str, str]:
    """Open the attempt's record and claim its place; return outputs of the resource."""
    return _rules(inputs).place_attempt(inputs)


def end_attempt(inputs: Inputs, *, reason: str) -> None:
    """End everything that the run owns up to this attempt, for another one to follow."""
    _rules(inputs).end_attempt(inputs, reason=reason)


def destroy_run(inputs: Inputs) -> None:
    """End everything that the run owns, for good; works from these inputs alone."""
    _rules(inputs).destroy_run(inputs)


def _refusal(before: Inputs, after: Inputs, rules: Rules) -> str | None:
    run_id, attempt = str(after["runId"]), int(after["attempt"])
    if before and int(before["attempt"]) > attempt:
        return (
            f"{run_id} is at attempt {int(before['attempt'])}, attempt {attempt} is past: "
            f"pulumi config set paddock:attempt {int(before['attempt'])} -s {run_id}"
        )
    record = rules.current_record(after)
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
    rules.check_attempt(after, record)
    return None


def _rules(inputs: Inputs) -> Rules:
    """Return the target's answers; a target's modules are loaded where it is used only."""
    if inputs.get("target") == "kubernetes":
        from runtime import kubernetes_run

        return kubernetes_run
    from runtime import local_rules

    return local_rules
