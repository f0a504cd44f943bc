"""The PodGroup by which the scheduler places a run's pods all or none. Pure.

Kubernetes' own gang scheduling, without an add-on: pods name their group in spec.schedulingGroup.
Source: k8s.io/api/scheduling/v1beta1 of Kubernetes 1.37.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pods import joins_gang


def run_pod_group(groups: tuple[JobGroup, ...], placed: PlacedRun) -> Manifest:
    """Return the PodGroup of a run's attempt.

    Its pods are preempted together too: what was left would hold GPUs for nothing.
    """
    members = sum(len(group.jobs) * group.num_pods for group in groups if joins_gang(group, placed))
    spec: Manifest = {
        "schedulingPolicy": {"gang": {"minCount": members}},
        "disruptionMode": {"all": {}},
    }
    if placed.kubernetes.priority_class is not None:
        spec["priorityClassName"] = placed.kubernetes.priority_class
    return {
        "apiVersion": placed.kubernetes.gang_api,
        "kind": "PodGroup",
        "metadata": placed.metadata(placed.workload),
        "spec": spec,
    }
