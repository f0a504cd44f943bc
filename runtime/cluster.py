"""ClusterProfile: what a cluster offers and how it is reached; the value a cluster stack exports.

Pure data. Made by the cluster stack (infra), read by plan, admission, observers and the CLI. It
carries no credential: `connection` says where, never with which secret.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime.errors import Problem, SettingsError


class _Profile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


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
    """Name of the kubeconfig context."""
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

    @property
    def target(self) -> str:
        """Return the target's name: local or kubernetes."""
        return self.connection.type

    def offer(self, gpu_type: str) -> GpuOffer | None:
        """Return the offer of a GPU type, or None."""
        return next((offer for offer in self.gpus if offer.name == gpu_type), None)


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
