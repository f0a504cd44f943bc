"""Reads the objects that the Kubernetes API gives into facts: pods, Jobs, JobSets. Pure.

What the facts mean is `runtime.observe.kubernetes.judge`; Kueue's Workload is read by `workload`.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime import naming, pod_names
from runtime.kubernetes_nodes import GPU_RESOURCE, is_rdma, quantity
from runtime.observe.kubernetes.facts import (
    ContainerFact,
    ContainerState,
    Disruption,
    JobFact,
    PodFact,
    WrapperEnd,
)

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_SET_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
DISRUPTION_TARGET = "DisruptionTarget"
_MAX_TEXT = 1_000


def pod_fact(pod: Manifest) -> PodFact | None:
    """Return the fact of a pod, None for one that belongs to no run."""
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    labels = meta.get("labels") or {}
    run_id = labels.get(naming.LABEL_RUN)
    if run_id is None:
        return None
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    spec = pod.get("spec") or {}
    return PodFact(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        run_id=run_id,
        attempt=_number(labels.get(naming.LABEL_ATTEMPT)),
        key=_pod_key(meta),
        job=_owner(meta, "Job"),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase") or ""),
        reason=str(status.get("reason") or ""),
        message=plain_text(status.get("message")),
        created=unix_time(meta.get("creationTimestamp")),
        is_scheduled=bool(spec.get("nodeName")),
        schedule_message=plain_text(scheduled.get("message")),
        disruption=_disruption(conditions.get(DISRUPTION_TARGET)),
        deletion_asked=_deletion_asked(meta),
        not_ready_since=_not_ready_since(status, conditions.get("Ready") or {}),
        containers=_containers(spec, status),
        num_gpus=_num_gpus(spec),
        rdma=_rdma(spec),
    )


def job_fact(job: Manifest) -> JobFact | None:
    """Return the fact of a Job or a JobSet, None for one that belongs to no run."""
    meta, spec, status = (job.get(key) or {} for key in ("metadata", "spec", "status"))
    labels = meta.get("labels") or {}
    run_id = labels.get(naming.LABEL_RUN)
    if run_id is None:
        return None
    failed = next(
        (
            one
            for one in status.get("conditions") or ()
            if one.get("type") in {"Failed", "FailureTarget"} and one.get("status") == "True"
        ),
        {},
    )
    return JobFact(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        run_id=run_id,
        attempt=_number(labels.get(naming.LABEL_ATTEMPT)),
        num_pods=_number(spec.get("completions") or spec.get("parallelism")),
        created=unix_time(meta.get("creationTimestamp")),
        is_deleted=meta.get("deletionTimestamp") is not None,
        is_suspended=bool(spec.get("suspend")),
        failure=str(failed.get("reason") or ""),
        failure_message=plain_text(failed.get("message")),
        failed_at=unix_time(failed.get("lastTransitionTime")),
    )


def unix_time(text: object) -> float | None:
    """Return a time of the API as a Unix time in seconds, None where there is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def wrapper_end(text: object) -> WrapperEnd | None:
    """Return what a wrapper left in a container's termination message, None for other words."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("outcome"), str):
        return None
    return WrapperEnd(
        component=str(found.get("component") or ""),
        outcome=found["outcome"],
        reason=plain_text(found.get("reason")),
        exit_code=_maybe_number(found.get("exit_code")),
        signal=str(found["signal"]) if found.get("signal") else None,
        end_mark=bool(found.get("end_mark")),
        oom_kills=_number(found.get("oom_kills")),
    )


def _containers(spec: Manifest, status: Manifest) -> tuple[ContainerFact, ...]:
    found = []
    for key, is_init in (("initContainers", True), ("containers", False)):
        statuses = status.get("initContainerStatuses" if is_init else "containerStatuses") or ()
        by_name = {one.get("name"): one for one in statuses}
        for container in spec.get(key) or ():
            known = by_name.get(container.get("name")) or {}
            found.append(_container(container, known, is_init=is_init))
    return tuple(found)


def _container(container: Manifest, status: Manifest, *, is_init: bool) -> ContainerFact:
    states = status.get("state") or {}
    state = _state(states)
    detail = states.get(state) or {}
    limits = (container.get("resources") or {}).get("limits") or {}
    message = detail.get("message")
    return ContainerFact(
        name=str(container.get("name", "")),
        is_init=is_init,
        state=state,
        reason=str(detail.get("reason") or ""),
        message=plain_text(message),
        exit_code=_maybe_number(detail.get("exitCode")),
        started=unix_time(detail.get("startedAt")),
        finished=unix_time(detail.get("finishedAt")),
        end=wrapper_end(message),
        image=str(container.get("image") or ""),
        memory_limit=str(limits.get("memory") or ""),
    )


def _state(states: Manifest) -> ContainerState:
    for name in ("terminated", "running", "waiting"):
        if name in states:
            return name
    return "none"


def _pod_key(meta: Manifest) -> str:
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    group = labels.get(pod_names.LABEL_REPLICATED_JOB) or labels.get(JOB_SET_REPLICATED_JOB) or ""
    job = labels.get(pod_names.JOB_SET_JOB_INDEX) or labels.get(pod_names.LABEL_JOB_INDEX) or "0"
    index = labels.get(COMPLETION_INDEX) or notes.get(COMPLETION_INDEX) or "0"
    return f"{group}-{job}-{index}"


def _owner(meta: Manifest, kind: str) -> str:
    owners = meta.get("ownerReferences") or ()
    return next((str(one.get("name")) for one in owners if one.get("kind") == kind), "")


def _disruption(condition: Manifest | None) -> Disruption | None:
    if not condition or condition.get("status") != "True":
        return None
    return Disruption(
        reason=str(condition.get("reason") or ""),
        message=plain_text(condition.get("message")),
        time=unix_time(condition.get("lastTransitionTime")),
    )


def _deletion_asked(meta: Manifest) -> float | None:
    """Return when the deletion was asked for: the API's time is that plus the grace period."""
    due = unix_time(meta.get("deletionTimestamp"))
    return None if due is None else due - _number(meta.get("deletionGracePeriodSeconds"))


def _not_ready_since(status: Manifest, ready: Manifest) -> float | None:
    """Return since when the pod's node is not ready.

    The node controller sets Ready to False and gives no reason; kubelet, while it lives, always
    gives one. Source: kubernetes pkg/controller/util/node MarkPodsNotReady.
    """
    is_running = status.get("phase") == "Running"
    if not is_running or ready.get("status") != "False" or ready.get("reason"):
        return None
    return unix_time(ready.get("lastTransitionTime"))


def _num_gpus(spec: Manifest) -> int:
    containers = spec.get("containers") or ()
    requests = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    return int(sum(quantity(one.get(GPU_RESOURCE, 0)) for one in requests))


def _rdma(spec: Manifest) -> str:
    limits = [
        (one.get("resources") or {}).get("limits") or {} for one in spec.get("containers") or ()
    ]
    return next((name for one in limits for name in one if is_rdma(name)), "")


def _number(value: object) -> int:
    return _maybe_number(value) or 0


def _maybe_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def plain_text(value: object) -> str:
    """Return words of the API on one line, of bounded length."""
    return " ".join(str(value).split())[:_MAX_TEXT] if value else ""
