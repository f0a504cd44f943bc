"""The settings of a cluster stack, one model a target; part of `runtime.stack_settings`. Pure.

Keys are camelCase in the file (`paddock:runVolumeSize`), snake_case here.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from runtime.cluster import GpuOffer, NodeClass, Toleration
from runtime.gpus import GPU_TYPES


def read_json(value: object) -> object:
    """Read what `pulumi config set` can only give as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("is no JSON") from None


class SettingsModel(BaseModel):
    """The base of every kind of stack's settings."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
    )


class LocalClusterSettings(SettingsModel):
    """A cluster stack of this machine."""

    kind: Literal["cluster"]
    """Kind of stack."""
    target: Literal["local"] = "local"
    """Where runs are placed: `local` means supervised processes of this machine."""
    slots: Annotated[int, Field(ge=1, le=64)] = 8
    """CPU slots where the machine has no CUDA device; one slot stands for one GPU."""
    runs_path: str = "runs"
    """Default run volume: folder of the run directories, relative to the project root."""
    state_path: str | None = None
    """State directory; default: clusters/<stack> under PADDOCK_HOME."""
    max_gpus_per_run: Annotated[int, Field(ge=1)] | None = None
    """Cap on GPUs per run below the platform's 64."""
    price_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price of one GPU hour; default: the list price of the GPU type, 0 for CPU slots."""
    allow_unknown_fields: bool = False
    """Turn unknown config keys into warnings, for image tags newer than the schema mirror."""


class KubernetesClusterSettings(SettingsModel):
    """A cluster stack that adopts a reserved Kubernetes cluster."""

    kind: Literal["cluster"]
    """Kind of stack."""
    target: Literal["kubernetes"]
    """Where runs are placed: `kubernetes` means pods of a cluster that exists."""
    context: str
    """(kubernetes) Context of the kubeconfig by which the cluster is reached."""
    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] = "paddock"
    """(kubernetes) Namespace of the runs; made where it is missing, never deleted."""
    image: str = "primeintellect/prime-rl"
    """(kubernetes) Repository of prime-rl's image, a mirror for example; tags are the runs'."""
    image_pull_secrets: tuple[str, ...] = ()
    """(kubernetes) Names of Secrets of the namespace that pull the image, as a JSON list."""
    tools_image: str = "python:3.12-slim"
    """(kubernetes) Image with Python for the file servers, which run on no GPU node."""
    storage_class: str | None = None
    """(kubernetes) StorageClass of the claims that the stack makes; default: the cluster's."""
    run_volume_claim: str | None = None
    """(kubernetes) Claim to adopt as the default run volume, instead of making one."""
    run_volume_size: str = "1Ti"
    """(kubernetes) Size of the default run volume that the stack makes."""
    files_claims: tuple[str, ...] = ()
    """(kubernetes) Further claims that the file server shows, as a JSON list."""
    models_volume_claim: str | None = None
    """(kubernetes) Claim to adopt as the model cache, instead of making one."""
    models_volume_size: str | None = None
    """(kubernetes) Size of the model cache that the stack makes; default: no model cache."""
    models_read_only: bool = False
    """(kubernetes) Mount the model cache read-only into runs, which then stay offline."""
    models: tuple[str, ...] = ()
    """(kubernetes) Models that lie in the cache already, as a JSON list."""
    model_download: bool = False
    """(kubernetes) Let a run download a model that is not cached."""
    environments: tuple[str, ...] = ()
    """(kubernetes) Taskset ids that the image carries, as a JSON list."""
    prices_usd_per_hour: dict[str, Annotated[float, Field(ge=0)]] = {}
    """(kubernetes) Price of one GPU hour by GPU type, as JSON; default: list prices."""
    gpu_types: tuple[str, ...] = ()
    """(kubernetes) GPU types to offer, as a JSON list; default: all that the nodes have."""
    gpu_offers: tuple[GpuOffer, ...] = ()
    """(kubernetes) GPU types without a node yet (Karpenter), or that cannot be listed, as JSON."""
    rdma_resource: str | None = None
    """(kubernetes) Extended resource of the RDMA devices; default: told by the nodes."""
    tolerations: tuple[Toleration, ...] = ()
    """(kubernetes) Tolerations of every pod of a run, as a JSON list."""
    priority_class: str | None = None
    """(kubernetes) PriorityClass of the pods of runs."""
    priority_value: Annotated[int, Field(le=1_000_000_000)] | None = None
    """(kubernetes) Value with which the stack makes that PriorityClass; default: it exists."""
    queue: str | None = None
    """(kubernetes) Kueue LocalQueue of the runs; default: none, the scheduler queues."""
    cluster_queue: str | None = None
    """(kubernetes) ClusterQueue for which the stack makes that LocalQueue; default: it exists."""
    own_cluster_queue: bool = False
    """(kubernetes) Make that ClusterQueue too, with all GPU nodes as its quota."""
    gpu_quota: Annotated[int, Field(ge=1)] | None = None
    """(kubernetes) Cap on the GPUs of all runs of the namespace (ResourceQuota); default: none."""
    exclusive_label: str | None = None
    """(kubernetes) Node label that holds the id of the run a node is reserved for."""
    node_class: NodeClass | None = None
    """(kubernetes) Karpenter node class of the runs' node pools, as JSON: group, kind, name."""
    prepull: bool = False
    """(kubernetes) Keep the image on every GPU node by a DaemonSet."""
    reconcile_image: str | None = None
    """(kubernetes) Image with paddock, to run `paddock reconcile` in the cluster; default: none."""
    model_express: str | None = None
    """(kubernetes) Host of a ModelExpress server, which NIXL weight broadcast needs."""
    processes_per_node: Annotated[int, Field(ge=1)] | None = None
    """(kubernetes) Test setting: processes of a GPU pod instead of one a GPU; runs print it."""
    max_gpus_per_run: Annotated[int, Field(ge=1)] | None = None
    """Cap on GPUs per run below the platform's 64."""
    allow_unknown_fields: bool = False
    """Turn unknown config keys into warnings, for image tags newer than the schema mirror."""

    _from_json = field_validator(
        "image_pull_secrets",
        "models",
        "environments",
        "prices_usd_per_hour",
        "tolerations",
        "node_class",
        "files_claims",
        "gpu_types",
        "gpu_offers",
        mode="before",
    )(read_json)

    @model_validator(mode="after")
    def _names_known_gpus(self) -> Self:
        known = {*GPU_TYPES, *(offer.name for offer in self.gpu_offers)}
        named = {"pricesUsdPerHour": self.prices_usd_per_hour, "gpuTypes": self.gpu_types}
        for key, names in named.items():
            if unknown := sorted(set(names) - known):
                those = ", ".join(sorted(known))
                raise ValueError(f"paddock:{key}: {', '.join(unknown)} is no GPU type ({those})")
        return self
