"""A run stack's inputs as plain values, judged before the first resource is declared."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pulumi

from infra.settings import StackSettings, read_profile, read_volume
from runtime import admission, naming, run_rules
from runtime.artifacts import runs_folder
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.config import (
    DispatchFlags,
    LoadedConfig,
    RLConfig,
    load_config,
    load_stored_config,
    read_config_bytes,
)
from runtime.credentials import environment_problems
from runtime.errors import ConfigError, RefusedError, SettingsError
from runtime.launch.notices import target_notices, volume_notices
from runtime.observe.snapshot import take_snapshot, with_live_gpus
from runtime.plan import RunPlan, build_plan
from runtime.stack_settings import RunSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInputs:
    """Everything that a target declares a run from; only `env` is an Output, and secret.

    `volume` is a volume stack's folder or claim, None for the cluster's default run volume.
    """

    plan: RunPlan
    config: RLConfig
    toml: str
    config_keys: dict[str, str]
    profile: ClusterProfile
    run_path: str
    volume: str | None
    environments: tuple[str, ...]
    control_plane: str | None
    env: pulumi.Output[dict[str, str]]
    env_names: frozenset[str]
    env_digest: pulumi.Output[str]
    notices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What a run stack asks for: its settings, the cluster, the volume's folder or claim.

    `profile` is the cluster as a run on this volume sees it.
    """

    settings: StackSettings
    body: RunSettings
    profile: ClusterProfile
    volume: str | None


def read_request(settings: StackSettings, body: RunSettings) -> RunRequest:
    """Return the request of a run stack; its cluster and volume are read from their stacks."""
    profile = read_profile(body.cluster)
    if not body.volume:
        return RunRequest(settings=settings, body=body, profile=profile, volume=None)
    volume = read_volume(body.volume, target=profile.target)
    profile = profile.on_volume(volume.shared)
    return RunRequest(settings=settings, body=body, profile=profile, volume=volume.place)


def read_config(request: RunRequest) -> LoadedConfig:
    """Return the run's config; raises ConfigError with every problem of the file.

    What nobody may bring in is judged at a run's first `up`, with its package specs, for which
    SettingsError is raised. A control plane has done so at dispatch.
    """
    if request.body.control_plane is not None:
        return _load(request, is_stored=True)
    try:
        loaded = _load(request)
        _check_environments(request)
    except (ConfigError, SettingsError):
        if not _has_begun(request):
            raise
        return _load(request, is_stored=True)
    return loaded


def _load(request: RunRequest, *, is_stored: bool = False) -> LoadedConfig:
    body, source = request.body, "rl.toml"
    text: str | bytes | None = body.config_text
    if text is None:
        assert body.config is not None, "the settings model demands one of the two"
        source = str(request.settings.root / body.config)
        text = read_config_bytes(source)
    load = load_stored_config if is_stored else load_config
    return load(
        text,
        source=source,
        flags=DispatchFlags(image_tag=body.image_tag, gpu_type=body.gpu_type),
        secret_names=request.settings.env_names,
        allow_unknown_fields=request.profile.allow_unknown_fields,
    )


def _check_environments(request: RunRequest) -> None:
    problems = environment_problems(request.body.environments)
    if problems:
        loc = f"{naming.PROJECT}:environments"
        raise SettingsError(
            [replace(problem, loc=(loc, *problem.loc[1:])) for problem in problems],
            source=f"stack {request.settings.stack}",
        )


def _has_begun(request: RunRequest) -> bool:
    """Tell whether the run has had an attempt with this config, perhaps of an earlier release."""
    run_id, connection = request.settings.stack, request.profile.connection
    inputs: dict[str, Any] = {"runId": run_id, "target": request.profile.target}  # Any: as RunSpec
    if isinstance(connection, KubernetesConnection):
        inputs |= {"context": connection.context, "namespace": connection.namespace}
    else:
        inputs["runPath"] = _run_path(run_id, request.profile, request.volume)
    try:
        digest = _load(request, is_stored=True).digest
    except ConfigError:
        return False
    record = run_rules.current_record(inputs)
    return record is not None and record.config_digest == digest


def plan_run(request: RunRequest, loaded: LoadedConfig) -> RunPlan:
    """Return the run's plan on its cluster."""
    plan = build_plan(
        loaded,
        run_id=request.settings.stack,
        attempt=request.body.attempt,
        profile=request.profile,
        null_harness=request.body.null_harness,
    )
    return replace(plan, resume_from=request.body.resume_from)


def admit(request: RunRequest, loaded: LoadedConfig, plan: RunPlan) -> RunInputs:
    """Return what the run is declared from; raises RefusedError with every reason at once."""
    profile, volume = request.profile, request.volume
    snapshot = take_snapshot(
        plan,
        profile,
        volume_path=volume,
        requested_environments=request.body.environments,
        secret_names=request.settings.env_names,
    )
    problems = admission.admission_problems(plan, profile=profile, snapshot=snapshot)
    if problems:
        raise RefusedError(problems, source=f"run {plan.run_id}")
    notices = [str(notice) for notice in loaded.notices]
    notices += target_notices(loaded.config, plan, profile) + volume_notices(profile, volume)
    notices += admission.admission_warnings(plan, profile, snapshot)
    if pulumi.runtime.is_dry_run():  # a notice only: `create` is what refuses, or the queue waits
        capacity = admission.capacity_problem(plan, with_live_gpus(snapshot, plan, profile))
        notices += [f"capacity: {capacity}"] if capacity is not None else []
    return RunInputs(
        plan=replace(plan, model_path=snapshot.model_path),
        config=loaded.config,
        toml=loaded.text,
        config_keys=key_digests(loaded.text),
        profile=profile,
        run_path=_run_path(plan.run_id, profile, volume),
        volume=volume,
        environments=request.body.environments,
        control_plane=request.body.control_plane,
        env=request.settings.env,
        env_names=request.settings.env_names,
        env_digest=request.settings.env_digest,
        notices=tuple(notices),
    )


def _run_path(run_id: str, profile: ClusterProfile, volume: str | None) -> str:
    """Return the run directory: a path of this machine (local), or within the claim."""
    if volume is None or profile.target != "local":
        return str(Path(profile.runs_path) / run_id)
    return str(runs_folder(Path(volume)) / run_id)


def key_digests(toml: str) -> dict[str, str]:
    """Return a short digest of each value of a TOML by its dotted key: a change has a name."""
    return {
        key: hashlib.sha256(value.encode()).hexdigest()[:12]
        for key, value in _leaves(tomllib.loads(toml))
    }


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for index, item in enumerate(value):
                yield from _leaves(item, f"{prefix}{key}[{index}].")
        else:
            yield f"{prefix}{key}", json.dumps(value, default=str, sort_keys=True)
