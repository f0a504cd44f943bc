"""Lets go of the GPUs of a run that is over but whose pods are not.

Components end by themselves when their run ends: their wrappers see to it. A pod that never started
has no wrapper, and a lost one does not listen: their Jobs are deleted. Nothing else is touched; the
logs of what ran are in the run directory.
"""

import contextlib
import time

from runtime.kubernetes_api import ForbiddenError, KubernetesApi
from runtime.observe.kubernetes.facts import PodFact, RunFacts

GRACE_S = 120.0
"""How long pods may take to end by themselves: the trainer's last checkpoint and some more."""


def release_stragglers(api: KubernetesApi, facts: RunFacts, *, ended: float | None) -> list[str]:
    """Delete the Jobs whose pods will not end by themselves; return what was deleted.

    `ended` is when the run ended, None for one whose place is taken away now: all of it goes. An
    observer that may not delete lets it be; `paddock destroy` does it.
    """
    is_late = ended is None or time.time() - ended >= GRACE_S
    stuck = {pod.job for pod in facts.pods if _is_stuck(pod, is_late=is_late)}
    jobs = [job for job in facts.jobs if job.name in stuck or ended is None]
    targets = [("Job", job) for job in jobs]
    if facts.job_set is not None and (jobs or ended is None):
        targets = [("JobSet", facts.job_set)]  # it would make its Jobs again
    deleted = []
    for kind, one in targets:
        if one.is_deleted:
            continue
        with contextlib.suppress(ForbiddenError):
            api.delete(kind, one.name, uid=one.uid)
            deleted.append(f"{kind} {one.name}")
    return deleted


def _is_stuck(pod: PodFact, *, is_late: bool) -> bool:
    if pod.is_over or pod.deletion_asked is not None:
        return False
    # kubelet says that a container has ended some moments before it says so of the pod
    return is_late or pod.main.state not in {"running", "terminated"}
