"""How far a run that lives has come: the state between QUEUED and RUNNING, in words. Pure.

The words are the scheduler's, Kueue's or kubelet's. They may change while the state does not, so
`paddock wait` shows them apart from the record.
"""

from runtime.observe.kubernetes.container_causes import pull_trouble
from runtime.observe.kubernetes.facts import PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedRun
from runtime.states import RunState

Progress = tuple[RunState, str]

_NODES = "nodes are available"
"""In the scheduler's words for why a pod fits on no node."""


def progress_of(facts: RunFacts, run: LaunchedRun) -> Progress | None:
    """Return (state, what is waited for); None where nothing of the run is there yet."""
    queued = _in_queue(facts)
    if queued is not None:
        return queued
    if not facts.jobs and not facts.pods:
        return None
    num_pods = max(len(run.pods), 1)
    pods = [pod for pod in facts.pods if pod.gone_at is None]
    homeless = [pod for pod in pods if not pod.is_scheduled and not pod.is_over]
    if homeless:
        return RunState.PENDING, _waiting(homeless, num_pods, run)
    if len(pods) < num_pods:
        return RunState.PENDING, _unmade(facts, len(pods), num_pods)
    waiting = [pod for pod in pods if not _has_started(pod)]
    if not waiting and run.pods:
        return RunState.RUNNING, ""
    return _starting(waiting, run)


def _in_queue(facts: RunFacts) -> Progress | None:
    workload = facts.workload
    if workload is not None and workload.state == "queued":
        words = f"{workload.reason}: {workload.message}".strip(": ")
        where = f" in {workload.queue}" if workload.queue else ""
        return RunState.QUEUED, f"Kueue{where}: {words}" if words else f"queued by Kueue{where}"
    if workload is not None and workload.state == "reserved":
        return RunState.PENDING, f"quota is reserved, Kueue waits: {workload.message}".rstrip(": ")
    made = (facts.job_set,) if facts.job_set is not None else facts.jobs
    if workload is None and made and not facts.pods and all(one.is_suspended for one in made):
        return RunState.QUEUED, "it is suspended until Kueue admits it"
    return None


def _waiting(pods: list[PodFact], num_pods: int, run: LaunchedRun) -> str:
    # of a gang one pod has the reason, all others only that there are too few of them
    told = max(pods, key=lambda pod: (_NODES in pod.schedule_message, bool(pod.schedule_message)))
    words = told.schedule_message or "the scheduler has not looked at it yet"
    return f"{len(pods)} of {num_pods} pods wait for a node; {run.pod(told.key).component}: {words}"


def _unmade(facts: RunFacts, num_made: int, num_pods: int) -> str:
    trouble = next((job.trouble for job in facts.jobs if job.trouble), "")
    words = f"{num_made} of {num_pods} pods are made"
    return f"{words}: {trouble}" if trouble else words


def _starting(pods: list[PodFact], run: LaunchedRun) -> Progress:
    for pod in pods:
        trouble = pull_trouble(pod)
        if trouble:
            return RunState.PULLING_IMAGE, f"{run.pod(pod.key).component}: {trouble}"
    pulling = [pod for pod in pods if pod.pull.is_pulling]
    if pulling:
        nodes = sorted({pod.node for pod in pulling})
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
        return RunState.PULLING_IMAGE, f"{pulling[0].pull.image} on {where}"
    if not pods:
        return RunState.CREATING, ""
    told = next((pod for pod in pods if pod.trouble), pods[0])
    return RunState.CREATING, f"{run.pod(told.key).component}: {told.trouble or _stage(told)}"


def _stage(pod: PodFact) -> str:
    """Return which of its containers a pod is at."""
    for one in pod.containers:
        if one.state == "running":
            return f"container {one.name} runs"
        if one.state != "terminated":
            return f"container {one.name} is created"
    return "its container is created"


def _has_started(pod: PodFact) -> bool:
    return pod.main.state in {"running", "terminated"}
