"""Kueue's Workload as a fact: whether a run is queued, admitted, evicted, or can never run. Pure.

Kueue 0.19 gives each condition a reason of its own; older releases say only Pending or Inadmissible
and put the rest into the message. Both are read. A Workload belongs to a run by its owner, the
run's JobSet or Job.
"""

import re
from collections.abc import Mapping
from typing import Any

from runtime.observe.kubernetes.facts import WorkloadFact, WorkloadState
from runtime.observe.kubernetes.objects import plain_text, unix_time

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects

_NEVER = {"ExceedsMaxQuota", "Misconfigured"}
"""Reasons of QuotaReserved=False for which no waiting helps. Source: Kueue 0.19."""

_NO_QUEUE = re.compile(r"(Local|Cluster)Queue \S+ (doesn't|does not) exist")
_OVER_QUOTA = re.compile(r"insufficient quota for|request > maximum capacity|maximum quota")
_MAY_FIT = "insufficient unused quota"
"""What older Kueue says under the reasons Pending and Inadmissible: `insufficient quota` is more
than a flavor ever has, `insufficient unused quota` is more than is free now."""

_DEACTIVATED = re.compile(r"^(Deactivated|InactiveWorkload)|(RequeuingLimit|MaximumExecution)")
"""Reasons of an eviction after which Kueue admits the Workload no more."""


def workload_fact(workload: Manifest) -> WorkloadFact:
    """Return the fact of a Workload, whoever owns it."""
    meta, spec = workload.get("metadata") or {}, workload.get("spec") or {}
    owners = tuple(str(one.get("name")) for one in meta.get("ownerReferences") or ())
    state, condition = _state(workload, is_active=spec.get("active", True) is not False)
    return WorkloadFact(
        name=str(meta.get("name", "")),
        owners=owners,
        queue=str(spec.get("queueName") or ""),
        state=state,
        reason=str(condition.get("reason") or ""),
        message=plain_text(condition.get("message")),
        time=unix_time(condition.get("lastTransitionTime")),
    )


def _state(workload: Manifest, *, is_active: bool) -> tuple[WorkloadState, Manifest]:
    """Return the state, and the condition that says why."""
    status = workload.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}

    def is_true(kind: str) -> bool:
        return (conditions.get(kind) or {}).get("status") == "True"

    quota = conditions.get("QuotaReserved") or {}
    if is_true("Finished"):
        return "finished", conditions["Finished"]
    # Evicted stays True until quota is reserved again.
    if is_true("Evicted"):
        evicted = conditions["Evicted"]
        is_final = not is_active or _DEACTIVATED.search(str(evicted.get("reason") or ""))
        return ("deactivated" if is_final else "evicted"), _with_cause(evicted, conditions)
    if not is_active:
        return "deactivated", quota
    if is_true("Admitted"):
        return "admitted", conditions["Admitted"]
    if is_true("QuotaReserved"):
        return "reserved", _open_check(status) or quota
    is_never = quota.get("reason") in _NEVER or _is_hopeless(str(quota.get("message") or ""))
    return ("never" if is_never else "queued"), quota


def _is_hopeless(words: str) -> bool:
    """Tell whether a message of older Kueue means that no waiting helps.

    It lists every flavor that was tried: one that only lacks free quota now is a hope.
    """
    if _NO_QUEUE.search(words):
        return True
    return bool(_OVER_QUOTA.search(words)) and _MAY_FIT not in words


def _with_cause(evicted: Manifest, conditions: Mapping[object, Manifest]) -> Manifest:
    """Return the eviction with the words of the preemption, which say who needed the place."""
    preempted = conditions.get("Preempted") or {}
    if evicted.get("reason") == "Preempted" and preempted.get("status") == "True":
        return {**evicted, "message": preempted.get("message") or evicted.get("message")}
    return evicted


def _open_check(status: Manifest) -> Manifest | None:
    """Return the first admission check that is not ready, as a condition."""
    for check in status.get("admissionChecks") or ():
        if check.get("state") != "Ready":
            words = f"admission check {check.get('name')}: {check.get('message') or 'pending'}"
            return {"reason": "AdmissionCheck", "message": words}
    return None
