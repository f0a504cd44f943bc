"""The run as one JobSet, which Kueue admits all or none. Pure.

The pod templates are those of the plain Jobs. `spec.suspend` is not set: Kueue's webhook sets it,
and a field that we do not write is nobody's drift.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.jobs import QUEUE_LABEL, job_spec
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pods import pod_template
from runtime import naming, pod_names
from runtime.kubernetes_kinds import KINDS


def run_job_set(groups: tuple[JobGroup, ...], placed: PlacedRun) -> Manifest:
    """Return the JobSet of a run that is placed in a queue."""
    assert placed.profile.queue is not None, "a run becomes a JobSet to wait in a queue"
    metadata = placed.metadata(placed.workload)
    metadata["labels"] |= {QUEUE_LABEL: placed.profile.queue}
    return {
        "apiVersion": KINDS["JobSet"].version,
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": placed.workload,
                "publishNotReadyAddresses": True,
            },
            # On success JobSet deletes what still runs. The trainer may be writing the last
            # checkpoint when the orchestrator has ended, so both are waited for.
            "successPolicy": {
                "operator": "All",
                "targetReplicatedJobs": [naming.ORCHESTRATOR, naming.TRAINER],
            },
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [_replicated_job(group, groups, placed) for group in groups],
        },
    }


def _replicated_job(group: JobGroup, groups: tuple[JobGroup, ...], placed: PlacedRun) -> Manifest:
    template = pod_template(group, groups, placed, job_index=None)
    labels = placed.labels(group.component) | {pod_names.LABEL_REPLICATED_JOB: group.name}
    return {
        "name": group.name,
        "replicas": len(group.jobs),
        "template": {"metadata": {"labels": labels}, "spec": job_spec(group, template)},
    }
