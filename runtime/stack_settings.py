"""The settings of a stack, as pydantic models: one model for each kind (cluster, volume, run).

Read by `infra.settings` from pulumi.Config and written by the CLI, campaigns and the control plane
as Pulumi.<stack>.yaml. Keys are camelCase in the file (`paddock:envFile`), snake_case here. Values
that are secret are not part of the models: `env` is handled by its readers and never written in
clear.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from runtime import naming
from runtime.cluster import NodeClass, Toleration
from runtime.errors import Problem, SettingsError

SECRET_KEYS = frozenset({"env"})
"""Keys whose values are secret; the models never see them."""


def _read_json(value: object) -> object:
    """Read what `pulumi config set` can only give as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("is no JSON") from None


class _Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class LocalClusterSettings(_Settings):
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


class KubernetesClusterSettings(_Settings):
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
    storage_class: str | None = None
    """(kubernetes) StorageClass of the claims that the stack makes; default: the cluster's."""
    run_volume_claim: str | None = None
    """(kubernetes) Claim to adopt as the default run volume, instead of making one."""
    run_volume_size: str = "1Ti"
    """(kubernetes) Size of the default run volume that the stack makes."""
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
    tolerations: tuple[Toleration, ...] = ()
    """(kubernetes) Tolerations of every pod of a run, as a JSON list."""
    priority_class: str | None = None
    """(kubernetes) PriorityClass of the pods of runs; it must exist."""
    queue: str | None = None
    """(kubernetes) Kueue LocalQueue of the runs; default: none, the scheduler queues."""
    cluster_queue: str | None = None
    """(kubernetes) ClusterQueue for which the stack makes that LocalQueue; default: it exists."""
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
        mode="before",
    )(_read_json)


class VolumeSettings(_Settings):
    """A volume stack: storage that outlives runs."""

    kind: Literal["volume"]
    """Kind of stack."""
    cluster: str
    """Name of the cluster stack that the volume belongs to."""
    path: str | None = None
    """Folder of the volume (local), relative to the project root; default: volumes/<stack>."""
    claim: str | None = None
    """(kubernetes) Claim to adopt, instead of making one named as the stack."""
    size: str = "1Ti"
    """(kubernetes) Size of the claim that the stack makes."""
    storage_class: str | None = None
    """(kubernetes) StorageClass of that claim; default: the cluster's."""


class RunSettings(_Settings):
    """A run stack."""

    kind: Literal["run"]
    """Kind of stack."""
    cluster: str
    """Name of the cluster stack that the run is placed on."""
    config: str | None = None
    """Path of the prime-rl TOML, relative to the project root; this or configText."""
    config_text: str | None = None
    """The TOML itself; written by the control plane only."""
    attempt: Annotated[int, Field(ge=1)] = 1
    """Attempt of the run; a higher number starts it again from its last checkpoint."""
    volume: str | None = None
    """Name of the volume stack; default: the cluster's default run volume."""
    gpu_type: str | None = None
    """GPU type to place on; wins over the TOML's gpu_type."""
    image_tag: str | None = None
    """prime-rl image tag; wins over the TOML's image_tag."""
    env_file: str | None = None
    """Path of a 0600 file of KEY=VALUE lines, outside the project; added to the secret `env`."""
    null_harness: Literal["in-process", "subprocess"] = "in-process"
    """Local target: run the `null` harness inside the env server, or as its own process."""
    environments: tuple[str, ...] = ()
    """(kubernetes) Packages to install before the start, as a JSON list of requirement specs."""

    _environments_from_json = field_validator("environments", mode="before")(_read_json)

    @model_validator(mode="after")
    def _one_config(self) -> "RunSettings":
        if (self.config is None) == (self.config_text is None):
            raise ValueError("a run needs exactly one of config (a path) and configText")
        return self


ClusterSettings = LocalClusterSettings | KubernetesClusterSettings
AnySettings = ClusterSettings | VolumeSettings | RunSettings

_CLUSTER_TAG = "cluster of target "


def _tag(value: object) -> str | None:
    """Return which model a stack's settings are read by: its kind, a cluster's target too."""
    given = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    kind = given.get("kind")
    if kind != "cluster":
        return kind if kind in {"volume", "run"} else None
    target = given.get("target", "local")
    return f"{_CLUSTER_TAG}{target}" if target in {"local", "kubernetes"} else "target"


class _NoTarget(_Settings):
    """A cluster stack with a target that does not exist."""

    kind: Literal["cluster"]
    """Kind of stack."""
    target: Literal["local", "kubernetes"]
    """Where runs are placed."""


_ADAPTER: TypeAdapter[AnySettings | _NoTarget] = TypeAdapter(
    Annotated[
        Annotated[LocalClusterSettings, Tag(f"{_CLUSTER_TAG}local")]
        | Annotated[KubernetesClusterSettings, Tag(f"{_CLUSTER_TAG}kubernetes")]
        | Annotated[_NoTarget, Tag("target")]
        | Annotated[VolumeSettings, Tag("volume")]
        | Annotated[RunSettings, Tag("run")],
        Discriminator(_tag),
    ]
)
_TAGS = frozenset({f"{_CLUSTER_TAG}local", f"{_CLUSTER_TAG}kubernetes", "volume", "run"})


def parse_settings(
    values: Mapping[str, Any],  # Any: JSON values as pulumi.Config or a YAML file gives them
    *,
    stack: str,
) -> AnySettings:
    """Return the settings of a stack from its keys without the `paddock:` namespace.

    Raises SettingsError naming each wrong key, or a stack name that is not a run id.
    """
    visible = {key: value for key, value in values.items() if key not in SECRET_KEYS}
    try:
        settings = _ADAPTER.validate_python(visible)
    except ValidationError as error:
        raise SettingsError(_problems(error), source=f"stack {stack}") from None
    assert not isinstance(settings, _NoTarget), "it refuses every target that gets there"
    if settings.kind == "run" and not naming.is_run_id(stack):
        raise SettingsError([bad_run_id(stack)], source=f"stack {stack}")
    return settings


def bad_run_id(run_id: str) -> Problem:
    """Return the problem that a name which is no run id is answered with."""
    return Problem(
        message=f"{run_id!r} is not a run id: 3 to 53 of a-z, 0-9 and '-', a letter first",
        fix="choose a name like run-123",
        code="run_id",
    )


def _problems(error: ValidationError) -> list[Problem]:
    return [
        Problem(
            loc=(f"{naming.PROJECT}:{_key(detail['loc'])}",),
            message=_message(str(detail["type"]), str(detail["msg"])),
            fix=f"pulumi config set {naming.PROJECT}:{_key(detail['loc'])} VALUE"
            if detail["type"] == "missing"
            else "",
            code="settings",
        )
        for detail in error.errors(include_url=False, include_input=False)
    ]


def _key(loc: tuple[int | str, ...]) -> str:
    named = [str(part) for part in loc if not isinstance(part, int)]
    if named and named[0] in {*_TAGS, "target"}:
        named = named[1:]
    return named[0] if named else "kind"


def _message(kind: str, text: str) -> str:
    if kind == "extra_forbidden":
        return "no such setting for this kind of stack"
    if kind in {"union_tag_not_found", "union_tag_invalid", "union_tag"}:
        return "must be one of cluster, volume, run"
    return text
