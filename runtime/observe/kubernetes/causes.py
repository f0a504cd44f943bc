"""Why a run failed: the causes of all its pods, the first one first. Pure.

What a pod's own wrapper says is believed before kubelet's words on its containers, and those before
the guesses of its peers. A failed Job's words count only where no pod of the run says more.
"""

from runtime.observe.kubernetes.cause import Cause
from runtime.observe.kubernetes.container_causes import init_cause, main_cause, start_cause
from runtime.observe.kubernetes.facts import JobFact, PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.observe.kubernetes.pod_causes import (
    deletion_cause,
    disruption_cause,
    node_cause,
    peer_cause,
)


def find_causes(facts: RunFacts, run: LaunchedRun) -> list[Cause]:
    """Return what made the run's pods and Jobs fail, the first cause first."""
    jobs = {job.name: job for job in facts.jobs}
    found = [_of_pod(pod, jobs.get(pod.job), facts, run) for pod in facts.pods]
    causes = [cause for cause in found if cause is not None]
    if not causes:
        causes = [
            _of_job(job, facts, run) for job in facts.jobs if job.failure and not job.is_deleted
        ]
    return sorted(causes, key=lambda cause: (cause.time, cause.rank))


def _of_pod(pod: PodFact, job: JobFact | None, facts: RunFacts, run: LaunchedRun) -> Cause | None:
    if pod.main.end is not None and pod.main.end.outcome == "completed":
        return None
    launched, now = run.pod(pod.key), facts.time
    return (
        disruption_cause(pod, launched, now)
        or init_cause(pod, launched, now)
        or main_cause(pod, launched, now)
        or deletion_cause(pod, launched, job, now)
        or peer_cause(pod, facts, run)
        or start_cause(pod, launched, now)
        or node_cause(pod, launched, now)
    )


def _of_job(job: JobFact, facts: RunFacts, run: LaunchedRun) -> Cause:
    message = f": {job.failure_message}" if job.failure_message else ""
    return Cause(
        time=job.failed_at or facts.time,
        launched=_launched_by(job, run),
        words=f"failed: its Job failed ({job.failure}){message}",
    )


def _launched_by(job: JobFact, run: LaunchedRun) -> LaunchedPod:
    """Return a pod of a Job, whose name ends with the pod's key without its last number."""
    found = [one for one in run.pods if job.name.endswith(f"-{one.key.rpartition('-')[0]}")]
    return found[0] if found else LaunchedPod(key="", component=job.name)
