"""ClusterProfile: what a cluster offers and how it is reached; the value a cluster stack exports.

Pure data. Made by the cluster stack (infra), read by plan, admission, observers and the CLI. It
carries no credential: `connection` says where, never with which secret.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.errors import Problem, SettingsError


class _Profile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Toleration(_Profile):
    """A toleration of a pod, in Kubernetes' own words."""

    key: str | None = None
    """Taint key; none with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """How the value is compared."""
    value: str | None = None
    """Taint value, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect; none: every effect."""

    def manifest(self) -> dict[str, str]:
        """Return the toleration as it stands in a pod."""
        return self.model_dump(exclude_none=True)


class FilesOffer(_Profile):
    """The file servers through which run directories are read from outside the cluster."""

    selector: dict[str, str]
    """Labels of their pods."""
    port: Annotated[int, Field(ge=1, le=65_535)]
    """Port of the server in the pod."""
    secret: str
    """Secret whose key `token` opens them."""
    image: str | None = None
    """Image of the servers; without one, a volume stack starts none of its own."""
    claims: tuple[str, ...] = ()
    """Claims that the cluster's own server shows besides the default run volume."""


class NodeClass(_Profile):
    """The Karpenter node class that a run's NodePool refers to."""

    group: str
    """API group, for example karpenter.k8s.aws."""
    kind: str
    """Kind, for example EC2NodeClass."""
    name: str
    """Name of the object."""


class KubernetesOffer(_Profile):
    """What pods on a cluster are made with: image, claims, and the add-ons that are there."""

    image_repository: str
    """Repository of prime-rl's image, without tag or digest."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of the Secrets that pull it."""
    run_claim: str
    """PersistentVolumeClaim of the default run volume."""
    models_claim: str | None = None
    """PersistentVolumeClaim of the model cache, or none."""
    storage_class: str | None = None
    """StorageClass of the cluster's volumes; none: the one that Kubernetes takes by default."""
    models_read_only: bool = False
    """Whether runs mount the model cache read-only; then they stay offline."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of every pod of a run."""
    priority_class: str | None = None
    """PriorityClass of the pods of a run."""
    jobset: bool = False
    """Whether the cluster serves JobSet."""
    queue_api: str | None = None
    """API version of Kueue, or none."""
    gang_api: str | None = None
    """API version of native gang scheduling, or none."""
    node_class: NodeClass | None = None
    """Karpenter's node class for the node pools of runs; none: nodes are reserved."""
    exclusive_label: str | None = None
    """Node label that must carry the run's id where a run claims nodes for itself, or none."""
    files: FilesOffer | None = None
    """The `files` Deployment, or none."""
    run_as_user: Annotated[int, Field(ge=1)] = 1000
    """User of the containers. Source: prime-rl's image, appuser."""
    fs_group: Annotated[int, Field(ge=1)] = 1000
    """Group that owns what the volumes mount."""
    num_processes_per_node: Annotated[int, Field(ge=1)] | None = None
    """Test setting: processes of a GPU pod, instead of one a GPU; none in production."""


class GpuOffer(_Profile):
    """One GPU type of a cluster; counts are what exists, not what is free."""

    name: str
    """GPU type, spelled as in `runtime.gpus`, or CPU for local slots."""
    num_nodes: Annotated[int, Field(ge=1)]
    """Nodes of this type."""
    gpus_per_node: Annotated[int, Field(ge=1)]
    """GPUs (local: slots) of each node."""
    price_usd_per_hour: Annotated[float, Field(ge=0)]
    """Price of one GPU for one hour."""

    node_selector: dict[str, str] = {}
    """Labels that select the nodes of this type (kubernetes)."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations that its nodes ask for (kubernetes)."""
    cpu_per_node: Annotated[float, Field(gt=0)] | None = None
    """Allocatable CPUs of each node, of the smallest where they differ (kubernetes)."""
    memory_gib_per_node: Annotated[float, Field(gt=0)] | None = None
    """Allocatable memory of each node in GiB, of the smallest where they differ (kubernetes)."""
    ephemeral_gib_per_node: Annotated[float, Field(gt=0)] | None = None
    """Allocatable ephemeral storage of each node in GiB (kubernetes)."""
    rdma_resource: str | None = None
    """Extended resource of the RDMA devices, as the nodes name it (kubernetes)."""
    rdma_per_node: Annotated[int, Field(ge=0)] = 0
    """RDMA devices of each node."""
    hugepages_2mi_per_node: Annotated[int, Field(ge=0)] = 0
    """Pre-allocated 2 MiB pages of each node, in MiB."""

    @property
    def num_gpus(self) -> int:
        """Return all GPUs of this type."""
        return self.num_nodes * self.gpus_per_node


class LocalConnection(_Profile):
    """How the local target is reached: two folders of this machine."""

    type: Literal["local"] = "local"
    """Tag of the union."""
    state_path: str
    """Absolute path of the state directory: slots, sockets, private files."""
    cache_path: str
    """Absolute path of the cache that holds the models."""


class KubernetesConnection(_Profile):
    """How a Kubernetes cluster is reached: a context of the caller's own kubeconfig."""

    type: Literal["kubernetes"] = "kubernetes"
    """Tag of the union."""
    context: str
    """Name of the kubeconfig context; `in-cluster` inside a pod: its service account."""
    namespace: str
    """Namespace of the runs."""


class ClusterProfile(_Profile):
    """What a cluster offers, and how to reach it."""

    name: str
    """Name of the cluster stack."""
    gpus: tuple[GpuOffer, ...]
    """GPU types, each once."""
    connection: Annotated[LocalConnection | KubernetesConnection, Field(discriminator="type")]
    """Where the cluster is; its tag is the target."""
    runs_path: str
    """Folder of the default run volume that holds the run directories."""
    models: tuple[str, ...] = ()
    """Models in the model cache."""
    model_download: bool = False
    """Whether a model that is not cached may be downloaded at start; reserved clusters: no."""
    gated_models: tuple[str, ...] = ()
    """Models that a download needs HF_TOKEN for, besides the well-known ones of limits.py: ids, or
    prefixes of ids."""
    volumes: tuple[str, ...] | None = None
    """Volumes that a run can name; none: any name is passed on unchecked."""
    environments: tuple[str, ...] = ()
    """Taskset ids that are installed."""
    environments_closed: bool = False
    """Whether a taskset that is not installed is refused, not only warned about."""
    shared_storage: bool = False
    """Whether the run volume can be mounted by several nodes (ReadWriteMany)."""
    max_gpus_per_run: Annotated[int, Field(ge=1)] | None = None
    """Cap below the platform's 64, or none."""
    allow_unknown_fields: bool = False
    """Whether config keys that the schema mirror does not know are warnings, for newer images."""
    model_express: str | None = None
    """Host of the cluster's ModelExpress server, which NIXL weight broadcast needs; none: no such
    server."""
    queue: str | None = None
    """Name of the Kueue LocalQueue; none where nothing queues."""
    kubernetes: KubernetesOffer | None = None
    """What pods are made with; none on the local target."""

    @property
    def target(self) -> str:
        """Return the target's name: local or kubernetes."""
        return self.connection.type

    def offer(self, gpu_type: str) -> GpuOffer | None:
        """Return the offer of a GPU type, or None."""
        return next((offer for offer in self.gpus if offer.name == gpu_type), None)

    def on_volume(self, shared: object) -> "ClusterProfile":
        """Return the profile as a run on a volume stack sees it, by that stack's output `shared`.

        As it is where an older stack exports none. What several nodes cannot mount has no file
        server either: its pod would hold the volume on a node of its own.
        """
        if not isinstance(shared, bool):
            return self
        offer = self.kubernetes
        if offer is not None and not shared:
            offer = offer.model_copy(update={"files": None})
        return self.model_copy(update={"shared_storage": shared, "kubernetes": offer})


def parse_profile(value: object, *, cluster: str) -> ClusterProfile:
    """Return the profile in a JSON value (or JSON text as bytes) of a stack's output or a file.

    Raises SettingsError naming each field that does not fit.
    """
    try:
        if isinstance(value, bytes):
            return ClusterProfile.model_validate_json(value)
        return ClusterProfile.model_validate(value)
    except ValidationError as error:
        problems = [
            Problem(loc=tuple(detail["loc"]), message=str(detail["msg"]), code="profile")
            for detail in error.errors(include_url=False, include_input=False)
        ]
        source = f"profile of {cluster} (of another version? pulumi up -s {cluster})"
        raise SettingsError(problems, source=source) from None


def models_folder(cache_path: str) -> Path:
    """Return the folder that holds the local target's models, one folder a model."""
    return Path(cache_path) / "models"
