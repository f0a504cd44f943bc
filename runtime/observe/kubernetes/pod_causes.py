"""What was done to a pod from outside: evicted, preempted, deleted, lost with its node. Pure.

Kubernetes tells by the pod's DisruptionTarget condition, its status reason, its deletion time; a
peer's wrapper tells by the heartbeat that it misses.
"""

import re

from runtime.observe.kubernetes.cause import Cause, Rank
from runtime.observe.kubernetes.facts import JobFact, PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun

NODE_LOST_S = 120.0
"""How long a pod's node may be not ready; Kubernetes itself waits 300 s before it evicts."""

GONE_SETTLE_S = 2.0
"""How long to wait for a Job's own deletion, which comes by another watch than its pods'."""

_LOW_ON = re.compile(r"low on resource: ([\w./-]*\w)")
_EPHEMERAL = re.compile(r"ephemeral[- ](local )?storage|emptyDir", re.IGNORECASE)
_NO_HEARTBEAT = re.compile(r"(\S+) (gave no heartbeat for .*)")
_WITH_NODE = {"DeletionByTaintManager", "DeletionByPodGC"}


def disruption_cause(pod: PodFact, launched: LaunchedPod, now: float) -> Cause | None:
    """Return the cause of a pod that the cluster ended for a reason of its own."""
    disruption = pod.disruption
    is_rejected = pod.phase == "Failed" and pod.reason and pod.main.state != "terminated"
    if disruption is None and not is_rejected:
        return None
    message = pod.message or (disruption.message if disruption else "")
    reason = disruption.reason if disruption else ""
    if pod.reason == "Evicted":
        words = f"was evicted by kubelet ({_evicted(message)}): {message}"
    elif reason in _WITH_NODE:
        words = f"was lost with its node ({reason}): {message}"
    elif reason == "PreemptionByScheduler":
        words = f"was preempted by a pod of higher priority: {message}"
    elif reason in {"TerminationByKubelet", ""}:
        words = f"was ended by kubelet ({pod.reason or reason}): {message}"
    else:
        words = f"was ended by the cluster ({reason}): {message}"
    return Cause(
        time=(disruption.time if disruption else None) or _end(pod, now),
        launched=launched,
        words=words,
        pod=pod,
        exit_code=pod.main.exit_code,
    )


def deletion_cause(
    pod: PodFact, launched: LaunchedPod, job: JobFact | None, now: float
) -> Cause | None:
    """Return the cause of a pod that somebody deleted, and its Job not.

    With a Job that is deleted or suspended its pods go too: a stop, a destroy, a preemption.
    """
    if job is None or job.is_deleted or job.is_suspended or job.failure == "DeadlineExceeded":
        return None
    if pod.deletion_asked is None and pod.gone_at is None:
        return None
    is_settled = pod.gone_at is not None and now - pod.gone_at >= GONE_SETTLE_S
    if not is_settled and not job.failure:
        return None
    return Cause(
        time=pod.deletion_asked or pod.gone_at or now,
        rank=Rank.DELETED,
        launched=launched,
        words="was deleted",
        pod=pod,
        exit_code=pod.main.exit_code,
    )


def peer_cause(pod: PodFact, facts: RunFacts, run: LaunchedRun) -> Cause | None:
    """Return the cause of a component whose peers ended since they heard it no more."""
    end = pod.main.end
    said = _NO_HEARTBEAT.fullmatch(end.reason) if end and end.outcome == "ended" else None
    lost = run.component(said[1]) if said else None
    if said is None or lost is None:
        return None
    silent = next((one for one in facts.pods if one.key == lost.key), None)
    return Cause(
        time=pod.main.finished or facts.time,
        rank=Rank.LOST,
        launched=lost,
        words=f"was lost: it {said[2]}",
        pod=silent,
    )


def node_cause(pod: PodFact, launched: LaunchedPod, now: float) -> Cause | None:
    """Return the cause of a pod whose node has been silent for too long."""
    since = pod.not_ready_since
    if pod.is_over or (pod.reason != "NodeLost" and since is None):
        return None
    if pod.reason != "NodeLost" and now - (since or now) < NODE_LOST_S:
        return None
    return Cause(
        time=since or now,
        rank=Rank.LOST,
        launched=launched,
        words=f"was lost: node {pod.node} is not ready",
        pod=pod,
    )


def _evicted(message: str) -> str:
    """Return `Evicted: <resource>` with the resource that ran out, where the message names it."""
    low = _LOW_ON.search(message)
    if low:
        return f"Evicted: {low[1]}"
    return "Evicted: ephemeral-storage" if _EPHEMERAL.search(message) else "Evicted"


def _end(pod: PodFact, now: float) -> float:
    ends = [one.finished for one in pod.containers if one.finished is not None]
    return max(ends, default=pod.deletion_asked or now)
