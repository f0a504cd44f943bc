"""The stack's settings from Pulumi's configuration; only `infra.prefetch` reads it too.

Fills the models of `runtime.stack_settings` and judges the secrets before anything is created. A
secret value leaves this module only as a secret Output.
"""

import hashlib
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env  # the whole bag; Config has no list
from pulumi.runtime.sync_await import _sync_await  # the SDK's own way; there is no public one

from runtime import naming
from runtime.cluster import ClusterProfile, parse_profile
from runtime.errors import Problem, SettingsError
from runtime.secret_rules import read_env_file, secret_problems
from runtime.stack_settings import (
    ClusterSettings,
    RunSettings,
    VolumeSettings,
    parse_settings,
)

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class StackSettings:
    """The settings of this stack; `root` is the project's folder, `env` the run's secrets."""

    stack: str
    root: Path
    body: ClusterSettings | VolumeSettings | RunSettings
    env: pulumi.Output[dict[str, str]]
    env_digest: pulumi.Output[str]
    env_names: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeOutputs:
    """What a volume stack exports: its folder or claim, and whether several nodes can mount it."""

    place: str
    shared: object
    """None where an older stack does not say."""


def load() -> StackSettings:
    """Return this stack's settings; raises SettingsError naming every wrong key."""
    stack = pulumi.get_stack()
    body = parse_settings(_namespace(), stack=stack)
    values = _secret_values(body)
    problems = secret_problems(values)
    if problems:
        raise SettingsError(problems, source=f"stack {stack}")
    return StackSettings(
        stack=stack,
        root=Path(pulumi.get_root_directory()),
        body=body,
        env=pulumi.Output.secret(values),
        env_digest=pulumi.Output.secret(_digest(values)),
        env_names=frozenset(values),
    )


def read_profile(cluster: str) -> ClusterProfile:
    """Return the profile that a cluster stack exports, read through a StackReference."""
    (profile,) = _stack_outputs(cluster, "profile", kind="cluster")
    return parse_profile(profile, cluster=cluster)


def read_volume(volume: str, *, target: str) -> VolumeOutputs:
    """Return what a volume stack holds: a folder (local), or the name of a claim (kubernetes)."""
    output = "path" if target == "local" else "claim"
    place, shared = _stack_outputs(volume, output, "shared", kind="volume")
    return VolumeOutputs(place=str(place), shared=shared)


def _stack_outputs(stack: str, output: str, *others: str, kind: str) -> list[Any]:  # Any: JSON
    """Return outputs of a stack; the others may be None. Raises SettingsError without the first."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"
    _check_stack(name, kind=kind)
    reference = pulumi.StackReference(name)
    found = [_wait(reference.get_output_details(one)).value for one in (output, *others)]
    if found[0] is None:
        message = f"stack {stack} exports no {output}: it is no {kind}, or not up yet"
        raise _no_stack(message, fix=f"pulumi up -s {stack}", kind=kind)
    return found


def _check_stack(name: str, *, kind: str) -> None:
    """Refuse a stack that is not there, for which a StackReference ends the program at once."""
    try:
        pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name})
    except Exception as error:  # the SDK raises a bare Exception
        if "unknown stack" not in str(error):
            raise
        stack = name.rpartition("/")[2]
        raise _no_stack(f"no stack {stack}", fix="pulumi stack ls", kind=kind) from None


def _no_stack(message: str, *, fix: str, kind: str) -> SettingsError:
    loc = (f"{naming.PROJECT}:{kind}",)
    problem = Problem(loc=loc, message=message, fix=fix, code=kind)
    return SettingsError([problem], source=f"stack {pulumi.get_stack()}")


def _wait(awaitable: Awaitable[_T]) -> _T:
    return _sync_await(awaitable)


def _namespace() -> dict[str, Any]:  # Any: JSON values
    prefix = f"{naming.PROJECT}:"
    found = {}
    for key, value in _all_config().items():
        if key.startswith(prefix) and value != "":
            found[key.removeprefix(prefix)] = value
    return found


def _all_config() -> dict[str, str]:
    return {**get_config_env(), **CONFIG.get()}


def _digest(values: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _secret_values(body: ClusterSettings | VolumeSettings | RunSettings) -> dict[str, str]:
    if not isinstance(body, RunSettings):
        return {}
    values = {}
    if body.env_file:
        root = Path(pulumi.get_root_directory())
        values = read_env_file(root / Path(body.env_file).expanduser())
    given = pulumi.Config().get("env")
    if not given:
        return values
    try:
        stored = json.loads(given)
    except json.JSONDecodeError:
        stored = None
    if not isinstance(stored, dict) or not all(isinstance(v, str) for v in stored.values()):
        raise SettingsError(
            [
                Problem(
                    loc=(f"{naming.PROJECT}:env",),
                    message="must be a JSON object of strings",
                    fix="pulumi config set --secret --path paddock:env.KEY "
                    f"-s {pulumi.get_stack()} < file",
                    code="secret",
                )
            ]
        )
    return {**values, **stored}
