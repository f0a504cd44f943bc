"""The manifests of a run: everything of it on Kubernetes but its Secret, as plain dicts. Pure.

The Secret is the run stack's own: its values are an Output, and secret.
"""

from dataclasses import dataclass

from infra.k8s.config_map import run_config_map
from infra.k8s.gang import run_pod_group
from infra.k8s.job_groups import job_groups
from infra.k8s.job_set import run_job_set
from infra.k8s.jobs import run_jobs
from infra.k8s.node_pool import run_node_pool
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.services import run_service


@dataclass(frozen=True, kw_only=True, slots=True)
class RunManifests:
    """The objects of one attempt: either `jobs` and their `service`, or `job_set`, which has both.

    `node_pool` is cluster-scoped, everything else lies in the run's namespace.
    """

    config_map: Manifest
    service: Manifest | None
    jobs: tuple[Manifest, ...]
    job_set: Manifest | None
    node_pool: Manifest | None
    pod_groups: tuple[Manifest, ...]

    @property
    def workloads(self) -> tuple[Manifest, ...]:
        """Return what makes pods: it is created last and deleted first."""
        return self.jobs if self.job_set is None else (self.job_set,)

    @property
    def before(self) -> tuple[Manifest, ...]:
        """Return what must be there before the first pod."""
        optional = (self.service, self.node_pool)
        return (
            self.config_map,
            *(item for item in optional if item is not None),
            *self.pod_groups,
        )


def run_manifests(placed: PlacedRun) -> RunManifests:
    """Return the manifests of a placed run.

    Raises RefusedError where two sources would have one pod, or the ConfigMap would be too big.
    """
    groups = job_groups(placed.components)
    return RunManifests(
        config_map=run_config_map(placed),
        service=None if placed.is_one_job_set else run_service(placed),
        jobs=() if placed.is_one_job_set else run_jobs(groups, placed),
        job_set=run_job_set(groups, placed) if placed.is_one_job_set else None,
        node_pool=run_node_pool(placed) if placed.owns_nodes else None,
        pod_groups=(run_pod_group(groups, placed),) if placed.is_gang else (),
    )
