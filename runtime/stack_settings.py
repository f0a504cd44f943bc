"""The settings of a stack, as pydantic models: one model for each kind (cluster, volume, run).

Read by `infra.settings` from pulumi.Config and written by the CLI, campaigns and the control plane
as Pulumi.<stack>.yaml. Keys are camelCase in the file (`paddock:envFile`), snake_case here. Values
that are secret are not part of the models: `env` is handled by its readers and never written in
clear.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from runtime import naming
from runtime.cluster_settings import (
    KubernetesClusterSettings,
    LocalClusterSettings,
    SettingsModel,
    read_json,
)
from runtime.errors import Problem, SettingsError
from runtime.resume_from import parse_resume_from

SECRET_KEYS = frozenset({"env"})
"""Keys whose values are secret; the models never see them."""


class VolumeSettings(SettingsModel):
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


class RunSettings(SettingsModel):
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
    resume_from: str | None = None
    """Run whose last checkpoint the run starts with, RUN, or RUN:STEP; it lies on the same
    volume."""
    gpu_type: str | None = None
    """GPU type to place on; wins over the TOML's gpu_type."""
    image_tag: str | None = None
    """prime-rl image tag; wins over the TOML's image_tag."""
    env_file: str | None = None
    """Path of a 0600 file of KEY=VALUE lines, outside the project; added to the secret `env`."""
    null_harness: Literal["in-process", "subprocess"] = "in-process"
    """Local target: run the `null` harness inside the env server, or as its own process."""
    environments: tuple[str, ...] = ()
    """(kubernetes) Packages to install before the start, as a JSON list of requirement specs; a
    credential in one is a reference to a secret, ${GIT_TOKEN}."""

    control_plane: str | None = None
    """Id of the control plane that made the run: a label of its objects (kubernetes), a file of its
    run directory (local); written by it only."""

    _environments_from_json = field_validator("environments", mode="before")(read_json)

    @field_validator("resume_from")
    @classmethod
    def _names_a_checkpoint(cls, text: str | None) -> str | None:
        if text is not None:
            parse_resume_from(text)
        return text

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


class _NoTarget(SettingsModel):
    """A cluster stack with a target that does not exist."""

    kind: Literal["cluster"]
    """Kind of stack."""
    target: Literal["local", "kubernetes"]
    """Where runs are placed."""


_Settings = Annotated[
    Annotated[LocalClusterSettings, Tag(f"{_CLUSTER_TAG}local")]
    | Annotated[KubernetesClusterSettings, Tag(f"{_CLUSTER_TAG}kubernetes")]
    | Annotated[_NoTarget, Tag("target")]
    | Annotated[VolumeSettings, Tag("volume")]
    | Annotated[RunSettings, Tag("run")],
    Discriminator(_tag),
]
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
        settings = _adapter().validate_python(visible)
    except ValidationError as error:
        raise SettingsError(_problems(error, stack), source=f"stack {stack}") from None
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


@cache
def _adapter() -> TypeAdapter[AnySettings | _NoTarget]:
    return TypeAdapter(_Settings)


def _problems(error: ValidationError, stack: str) -> list[Problem]:
    return [
        Problem(
            loc=(f"{naming.PROJECT}:{_key(detail['loc'])}",),
            message=_message(str(detail["type"]), str(detail["msg"])),
            fix=f"pulumi config set {naming.PROJECT}:{_key(detail['loc'])} VALUE -s {stack}"
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
    return text.removeprefix("Value error, ")
