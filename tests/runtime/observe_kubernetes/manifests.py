"""Objects of runs as the API gives them, made small for tests of the index and the watch."""

from collections.abc import Iterable
from typing import Any

from runtime.kubernetes_record import RECORD_KEY, record_manifest
from runtime.run_record import RunRecord
from runtime.states import RunState

Json = dict[str, Any]
Condition = tuple[str, str, str, str]
"""Type, status, reason and message of a condition."""


def labels(run_id: str, attempt: int = 1) -> Json:
    """Return the labels of an object of a run."""
    return {
        "paddock.dev/run": run_id,
        "paddock.dev/attempt": str(attempt),
        "paddock.dev/replicated-job": "trainer",
        "paddock.dev/job-index": "0",
        "batch.kubernetes.io/job-completion-index": "0",
    }


def pod(run_id: str, name: str = "", *, attempt: int = 1, created: int = 0, **status: Any) -> Json:  # noqa: ANN401 - JSON
    """Return a pod of the run's trainer; it runs unless its status says otherwise."""
    return {
        "metadata": {
            "name": name or f"{run_id}-{attempt}-trainer-0-0-x",
            "uid": name or f"{run_id}-{attempt}",
            "labels": labels(run_id, attempt),
            "creationTimestamp": f"2025-12-01T10:{created:02}:00Z",
            "ownerReferences": [{"kind": "Job", "name": f"{run_id}-{attempt}-trainer-0"}],
        },
        "spec": {"nodeName": "n0", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
            **status,
        },
    }


def job(run_id: str, *, attempt: int = 1, **spec: Any) -> Json:  # noqa: ANN401 - JSON
    """Return the Job of the run's trainer."""
    name = f"{run_id}-{attempt}-trainer-0"
    meta = {"name": name, "uid": name, "labels": labels(run_id, attempt)}
    return {"metadata": meta, "spec": {"completions": 1, **spec}, "status": {}}


def record(run_id: str, state: RunState = RunState.RUNNING, attempt: int = 1) -> Json:
    """Return the ConfigMap of a run's record."""
    made = RunRecord(run_id=run_id, config_digest="d", attempt=attempt, state=state)
    return record_manifest(run_id, {RECORD_KEY: made.model_dump_json()})


def event(name: str, reason: str, message: str, *, kind: str = "Pod", minute: int = 0) -> Json:
    """Return an event of an object."""
    time = f"2025-12-01T10:{minute:02}:00Z"
    return {
        "metadata": {"name": f"{name}.{reason}.{minute}"},
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "firstTimestamp": time,
        "lastTimestamp": time,
    }


def workload(owner: str) -> Json:
    """Return a Workload that waits for quota."""
    return {
        "metadata": {"name": f"jobset-{owner}", "ownerReferences": [{"name": owner}]},
        "spec": {"queueName": "gpus"},
        "status": {},
    }


def written(conditions: Iterable[Condition]) -> list[Json]:
    """Return conditions as they stand in a Workload's status."""
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-12-01T10:00:00Z",
        }
        for kind, status, reason, message in conditions
    ]
