"""The Jobs of a run: one a group, and one a replica of inference. Pure.

Indexed, because the index names the pod's host; as many completions as pods, because every pod is
wanted once.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pods import pod_template
from runtime import pod_names

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

DISRUPTION = {
    "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}],
}
"""What happens when a pod is evicted, preempted or lost with its node. `Ignore` would make a new
pod in its place, which cannot rejoin the run; `Count` would end the Job by backoffLimit, like any
failure. `FailJob` ends it with the reason PodFailurePolicy, which no failure of a program gives."""


def run_jobs(groups: tuple[JobGroup, ...], placed: PlacedRun) -> tuple[Manifest, ...]:
    """Return the Jobs of a run, in the order of their groups."""
    return tuple(
        _job(group, groups, placed, index=index)
        for group in groups
        for index in range(len(group.jobs))
    )


def job_spec(group: JobGroup, template: Manifest) -> Manifest:
    """Return the spec of a Job of a group."""
    return {
        "completionMode": "Indexed",
        "completions": group.num_pods,
        "parallelism": group.num_pods,
        "backoffLimit": 0,
        "podFailurePolicy": DISRUPTION,
        "template": template,
    }


def _job(
    group: JobGroup, groups: tuple[JobGroup, ...], placed: PlacedRun, *, index: int
) -> Manifest:
    plan = placed.plan
    name = pod_names.job_name(plan.run_id, plan.attempt, group.jobs[index][0])
    metadata = placed.metadata(name, group.component)
    metadata["labels"] |= {
        pod_names.LABEL_REPLICATED_JOB: group.name,
        pod_names.LABEL_JOB_INDEX: str(index),
    }
    if placed.profile.queue is not None:
        metadata["labels"][QUEUE_LABEL] = placed.profile.queue
    template = pod_template(group, groups, placed, job_index=index)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": job_spec(group, template),
    }
