"""Kueue's conditions are mapped to what they mean for a run, in the words of old and new releases.

The messages are Kueue's (pkg/scheduler/flavorassigner, pkg/queue, pkg/workload), 0.6 to 0.19.
"""

from typing import Any

import pytest

from runtime.observe.kubernetes.workload import workload_fact
from tests.runtime.observe_kubernetes.manifests import Condition, Json, written


def workload(*conditions: Condition, spec: Json | None = None, status: Json | None = None) -> Json:
    """Return a Workload with these conditions: type, status, reason, message."""
    return {
        "metadata": {
            "name": "jobset-run-one-1-3f2a1",
            "ownerReferences": [{"kind": "JobSet", "name": "run-one-1", "uid": "u"}],
        },
        "spec": {"queueName": "gpus", **(spec or {})},
        "status": {
            "conditions": written(conditions),
            **(status or {}),
        },
    }


NO_QUOTA = (
    "couldn't assign flavors to pod set trainer-0: insufficient unused quota for nvidia.com/gpu in "
    "flavor h200, 8 more needed"
)
TOO_MUCH = (
    "couldn't assign flavors to pod set trainer-0: insufficient quota for nvidia.com/gpu in flavor "
    "h200, request > maximum capacity (64 > 32)"
)
RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
ADMITTED = ("Admitted", "True", "Admitted", "The workload is admitted")
PREEMPTED = "Preempted to accommodate a workload (UID: 7) due to prioritization in the ClusterQueue"


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [
        (workload(), "queued", ""),
        (workload(("QuotaReserved", "False", "WaitingForQuota", NO_QUOTA)), "queued", "8 more"),
        (workload(("QuotaReserved", "False", "Pending", NO_QUOTA)), "queued", "8 more needed"),
        (workload(("QuotaReserved", "False", "Suspended", "is stopped")), "queued", "stopped"),
        (
            workload(("QuotaReserved", "False", "Inadmissible", "ClusterQueue cq is inactive")),
            "queued",
            "inactive",
        ),
        (workload(("QuotaReserved", "False", "ExceedsMaxQuota", "64 > 32")), "never", "64 > 32"),
        (workload(("QuotaReserved", "False", "Misconfigured", "no LocalQueue")), "never", "no"),
        (workload(("QuotaReserved", "False", "Pending", TOO_MUCH)), "never", "64 > 32"),
        (
            workload(
                ("QuotaReserved", "False", "Pending", "insufficient quota for cpu in flavor f in C")
            ),
            "never",
            "insufficient quota",
        ),
        # one flavor is too small for ever, another is only full
        (
            workload(("QuotaReserved", "False", "Pending", f"{TOO_MUCH}, {NO_QUOTA}")),
            "queued",
            "",
        ),
        (
            workload(("QuotaReserved", "False", "Inadmissible", "LocalQueue gpus doesn't exist")),
            "never",
            "doesn't exist",
        ),
        (workload(RESERVED), "reserved", "Quota reserved in"),
        (
            workload(
                RESERVED,
                status={
                    "admissionChecks": [
                        {"name": "a", "state": "Ready", "message": ""},
                        {"name": "prov", "state": "Pending", "message": "waits for nodes"},
                    ]
                },
            ),
            "reserved",
            "admission check prov: waits for nodes",
        ),
        (workload(RESERVED, ADMITTED), "admitted", ""),
        (
            workload(
                ("QuotaReserved", "False", "Pending", NO_QUOTA),
                ("Admitted", "False", "NoReservation", ""),
                ("Evicted", "True", "Preempted", PREEMPTED),
                ("Preempted", "True", "InClusterQueue", f"{PREEMPTED}; path: /"),
            ),
            "evicted",
            "; path: /",
        ),
        (workload(("Evicted", "True", "PodsReadyTimeout", "late")), "evicted", "late"),
        (workload(("Evicted", "True", "NodeFailures", "node lost")), "evicted", "node lost"),
        (
            workload(("Evicted", "True", "Deactivated", "by the user"), spec={"active": False}),
            "deactivated",
            "by the user",
        ),
        (
            workload(("Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded", "too often")),
            "deactivated",
            "too often",
        ),
        (workload(("Evicted", "True", "InactiveWorkload", "off")), "deactivated", "off"),
        (workload(("QuotaReserved", "False", "x", "y"), spec={"active": False}), "deactivated", ""),
        # requeued and admitted again
        (
            workload(RESERVED, ADMITTED, ("Evicted", "False", "QuotaReserved", "before")),
            "admitted",
            "",
        ),
        (workload(("Finished", "True", "Succeeded", "done"), RESERVED), "finished", "done"),
    ],
)
def test_conditions_say_where_a_run_stands(made: dict[str, Any], state: str, words: str):
    fact = workload_fact(made)

    assert fact.state == state
    assert words in fact.message
    assert fact.owners == ("run-one-1",)
