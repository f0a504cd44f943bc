"""PlacedRun: a run's plan with everything that its manifests are made from; plain values only.

Made by the run stack before the first resource is declared. The manifests themselves are in
`infra.k8s.manifests`; nothing in this module or in those that it serves knows Pulumi.
"""

from dataclasses import dataclass
from typing import Any

from runtime import naming, pod_names
from runtime.cluster import ClusterProfile, GpuOffer, KubernetesOffer
from runtime.config import RLConfig
from runtime.launch.components import Component, build_components
from runtime.plan import RunPlan

Manifest = dict[str, Any]  # Any: JSON values of a Kubernetes object

RUN = "run"
"""Component label of what belongs to no component of the run, but to all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedRun:
    """A run and where it is placed.

    `image` is the reference that every container gets; `volume_claim` holds the run directory, and
    with `volume_mounted` (a volume stack's) is mounted as a whole too. `environments` are the
    requirement specs of the packages that are installed before the start. `control_plane` is the id
    of the one that made the run, if any.
    """

    plan: RunPlan
    profile: ClusterProfile
    config: RLConfig
    toml: str
    image: str
    volume_claim: str
    volume_mounted: bool = False
    environments: tuple[str, ...] = ()
    control_plane: str | None = None

    @property
    def kubernetes(self) -> KubernetesOffer:
        """Return what the cluster's pods are made with."""
        assert self.profile.kubernetes is not None, "a profile of the kubernetes target has it"
        return self.profile.kubernetes

    @property
    def namespace(self) -> str:
        """Return the namespace of the run's objects."""
        connection = self.profile.connection
        assert connection.type == "kubernetes", "a profile of the kubernetes target says where"
        return connection.namespace

    @property
    def offer(self) -> GpuOffer | None:
        """Return the GPU type that the run was placed on; none where any will do."""
        gpu_type = self.plan.pool.gpu_type
        return self.profile.offer(gpu_type) if gpu_type is not None else None

    @property
    def components(self) -> tuple[Component, ...]:
        """Return the components of the run, in the order in which they are declared."""
        return build_components(self.plan)

    @property
    def workload(self) -> str:
        """Return the name that the attempt's objects share."""
        return pod_names.workload_name(self.plan.run_id, self.plan.attempt)

    @property
    def is_one_job_set(self) -> bool:
        """Tell whether the run's Jobs are made by one JobSet, which Kueue admits as a whole."""
        return self.profile.queue is not None and self.kubernetes.jobset

    @property
    def is_gang(self) -> bool:
        """Tell whether the scheduler itself is to place the run's pods all or none."""
        return self.profile.queue is None and self.kubernetes.gang_api is not None

    @property
    def owns_nodes(self) -> bool:
        """Tell whether the run has a node pool of its own."""
        return self.kubernetes.node_class is not None and self.plan.num_gpus > 0

    @property
    def follows_gpus(self) -> bool:
        """Tell whether pods without a GPU must run where the GPU pods are, to share the volume."""
        return not self.profile.shared_storage and not self.plan.pool.exclusive_nodes

    def labels(self, component: str = RUN) -> dict[str, str]:
        """Return the labels of an object of the run."""
        labels = naming.run_labels(self.plan.run_id, self.plan.attempt, component)
        if self.control_plane is not None:
            labels[naming.LABEL_CONTROL_PLANE] = self.control_plane
        return labels

    def metadata(self, name: str, component: str = RUN) -> Manifest:
        """Return the metadata of a namespaced object of the run."""
        return {"name": name, "namespace": self.namespace, "labels": self.labels(component)}
