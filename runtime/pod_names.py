"""Names of what a run is made of on Kubernetes: Jobs, pods, Services, ConfigMaps, Secrets. Pure.

The names are those that JobSet would give, with or without it: Job `<workload>-<replicated
job>-<job>`, pod host name `<job name>-<pod>`, and one headless Service named as the workload. So
addresses do not depend on who makes the pods. Every one is a DNS-1035 label, and leaves room for
the five random characters of a pod's name.
"""

from typing import TYPE_CHECKING

from runtime import naming

if TYPE_CHECKING:  # readers of names alone load no plan
    from runtime.launch.components import Component

LABEL_REPLICATED_JOB = f"{naming.LABEL_PREFIX}/replicated-job"
LABEL_JOB_INDEX = f"{naming.LABEL_PREFIX}/job-index"
LABEL_RECORD = f"{naming.LABEL_PREFIX}/record"
LABEL_NAMESPACE = f"{naming.LABEL_PREFIX}/namespace"
"""On what has no namespace of its own: two namespaces may have a run of one id."""

JOB_SET_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
"""The label by which JobSet tells a pod the number of its Job."""

MAX_WORKLOAD_CHARS = 28
MAX_REPLICATED_JOB_CHARS = 22
# 28 + 22, two indexes of two digits, three dashes between them, the pod's dash and five random
# characters are 63. Source: JobSet's webhook, which checks the computed pod name.


def workload_name(run_id: str, attempt: int) -> str:
    """Return the name of one attempt's workload: its JobSet, gang and headless Service."""
    return naming.slug(f"{run_id}-{attempt}", MAX_WORKLOAD_CHARS)


def replicated_job(component: "Component") -> str:
    """Return the name of the group of Jobs that a component belongs to, as in a JobSet."""
    role = component.role
    if role.role == naming.ENV_SERVER:
        return naming.slug(component.name, MAX_REPLICATED_JOB_CHARS)
    return role.part or role.role


def job_index(component: "Component") -> int:
    """Return which Job of its group a component belongs to: an inference replica has one each."""
    return component.replica


def pod_index(component: "Component") -> int:
    """Return which pod of its Job a component is: the completion index."""
    return component.pod - component.replica * component.role.pods_per_replica


def pod_key(component: "Component") -> str:
    """Return what tells a component's pod from all others of the attempt: `inference-0-1`."""
    return f"{replicated_job(component)}-{job_index(component)}-{pod_index(component)}"


def job_name(run_id: str, attempt: int, component: "Component") -> str:
    """Return the name of the Job of a component's pod."""
    workload = workload_name(run_id, attempt)
    return f"{workload}-{replicated_job(component)}-{job_index(component)}"


def host_name(run_id: str, attempt: int, component: "Component") -> str:
    """Return the host name of a component's pod, unique in its namespace."""
    return f"{workload_name(run_id, attempt)}-{pod_key(component)}"


def config_map_name(run_id: str, attempt: int) -> str:
    """Return the name of the ConfigMap with the user's TOML and what starts the components."""
    return f"{workload_name(run_id, attempt)}-launch"


def secret_name(run_id: str, attempt: int) -> str:
    """Return the name of the Secret with the run's environment."""
    return f"{workload_name(run_id, attempt)}-env"


def node_pool_name(namespace: str, run_id: str) -> str:
    """Return the name of the run's NodePool, which lies in no namespace; attempts share it."""
    return naming.slug(f"{namespace}-{run_id}")


def record_name(run_id: str) -> str:
    """Return the name of the ConfigMap that keeps the run's record; no stack owns it."""
    return naming.slug(f"paddock-record-{run_id}")
