"""`paddock plan`, `schema`, `gpus`: what a run would be made of, and on what."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from runtime import admission, limits
from runtime.artifacts import runs_folder
from runtime.cluster import ClusterProfile, parse_profile
from runtime.commands.session import (
    Output,
    OutputOption,
    console,
    open_project,
    print_json,
)
from runtime.config import DispatchFlags, LoadedConfig, read_config_file
from runtime.config.json_schema import json_schema
from runtime.control import stacks
from runtime.credentials import environment_problems
from runtime.errors import NotFoundError, RefusedError
from runtime.launch.notices import target_notices
from runtime.observe.snapshot import take_snapshot, with_live_gpus
from runtime.plan import RunPlan, build_plan
from runtime.plan_report import component_rows, plan_report, price_text
from runtime.secret_rules import read_env_file, read_env_flags, secret_problems
from runtime.situation import Snapshot

_PREVIEW_RUN_ID = "run-id"


def plan(
    toml: Annotated[Path, typer.Argument(help="prime-rl TOML of the run")],
    cluster: Annotated[
        str | None, typer.Option(help="cluster stack, or a ClusterProfile file (JSON)")
    ] = None,
    volume: Annotated[
        str | None, typer.Option(help="the run's volume: a folder (local target), or its name")
    ] = None,
    gpu_type: Annotated[str | None, typer.Option(help="GPU type, e.g. H200_141GB")] = None,
    image_tag: Annotated[str | None, typer.Option(help="prime-rl image tag")] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env-var", "-e", help="secret: KEY, or KEY=VALUE")
    ] = None,
    env_file: Annotated[Path | None, typer.Option(help="0600 file of KEY=VALUE lines")] = None,
    environment: Annotated[
        list[str] | None, typer.Option(help="package to install at start, a requirement spec")
    ] = None,
    max_gpus: Annotated[int, typer.Option(help="cap on the run's GPUs")] = limits.MAX_GPUS_PER_RUN,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what a run would be made of, touching nothing; every refusal at once."""
    profile = read_profile(cluster) if cluster else None
    values = read_env_file(env_file) if env_file else {}
    values |= read_env_flags(env or [], os.environ)
    loaded = read_config_file(
        toml,
        flags=DispatchFlags(image_tag=image_tag, gpu_type=gpu_type, volume=volume),
        secret_names=frozenset(values),
        allow_unknown_fields=profile.allow_unknown_fields if profile else False,
    )
    made = build_plan(loaded, run_id=_PREVIEW_RUN_ID, profile=profile)
    folder, profile = _on_volume(volume, cluster, profile)
    snapshot = None
    if profile is not None:
        snapshot = take_snapshot(
            made,
            profile,
            volume_path=folder,
            requested_environments=environment or (),
            secret_names=frozenset(values),
        )
        snapshot = with_live_gpus(snapshot, made, profile)
    problems = secret_problems(values) + environment_problems(environment or ())
    problems += admission.admission_problems(
        made, profile=profile, snapshot=snapshot, max_gpus=max_gpus
    )
    if problems:
        raise RefusedError(problems, source=str(toml))
    notices = _notices(loaded, made, profile, snapshot)
    if snapshot is not None:
        made = replace(made, model_path=snapshot.model_path)
        full = admission.capacity_problem(made, snapshot)
        notices += [f"capacity: {full}"] if full else []
    not_checked = admission.NOT_CHECKED if profile is None else ()
    run_path = _run_path(folder, profile)
    report = plan_report(made, run_path=run_path, notices=notices, not_checked=not_checked)
    if output is Output.JSON:
        print_json(report)
    else:
        _print_plan(made, report)


def _run_path(folder: str | None, profile: ClusterProfile | None) -> str:
    runs = runs_folder(Path(folder)) if folder else Path(profile.runs_path if profile else "runs")
    return str(runs / _PREVIEW_RUN_ID)


def schema() -> None:
    """Print the JSON Schema of a run's TOML, for editors."""
    print_json(json_schema())


def read_profile(cluster: str) -> ClusterProfile:
    """Return the profile of a cluster: a JSON file's, or the one that a stack exports."""
    if cluster.endswith(".json"):
        try:
            return parse_profile(Path(cluster).read_bytes(), cluster=cluster)
        except OSError as error:
            raise NotFoundError(f"--cluster {cluster}: {error.strerror}") from None
    project = open_project()
    if cluster not in stacks.list_stacks(project):
        raise NotFoundError(
            f"--cluster {cluster}: no such stack, and no .json file: `pulumi stack ls` lists stacks"
        )
    found = stacks.outputs(project, cluster).get("profile")
    if found is None:
        raise NotFoundError(f"stack {cluster} exports no profile: pulumi up -s {cluster}")
    return parse_profile(found, cluster=cluster)


def _on_volume(
    volume: str | None, cluster: str | None, profile: ClusterProfile | None
) -> tuple[str | None, ClusterProfile | None]:
    """Return the run's volume, and the cluster as a run on it sees it.

    The folder of a volume stack of a local cluster; any other text as it stands.
    """
    if volume is None or cluster is None or profile is None or "/" in volume:
        return volume, profile
    if profile.target != "local" and cluster.endswith(".json"):
        return volume, profile  # a file of a cluster does without stacks
    project = open_project()
    if volume not in stacks.list_stacks(project):
        return volume, profile
    found = stacks.outputs(project, volume)
    if profile.target == "local":
        return str(found.get("path", volume)), profile
    return volume, profile.on_volume(found.get("shared"))


def _notices(
    loaded: LoadedConfig,
    made: RunPlan,
    profile: ClusterProfile | None,
    snapshot: Snapshot | None,
) -> list[str]:
    found = [f"{notice.path}: {notice.message}".lstrip(": ") for notice in loaded.notices]
    found += target_notices(loaded.config, made, profile)
    return found + admission.admission_warnings(made, profile, snapshot)


def _print_plan(made: RunPlan, report: dict[str, Any]) -> None:
    out = console()
    pool = made.pool
    out.print(
        f"{made.name}: {made.deployment}, {made.num_gpus} GPUs "
        f"({pool.num_nodes} x {pool.gpus_per_node} {pool.gpu_type or 'of any type'}), "
        f"{made.num_pods} pods, target {made.target}"
    )
    roles = Table("Role", "Pods", "GPUs/pod", "GPUs", "tp", "dp", box=None)
    for role in made.roles:
        name = " ".join(filter(None, (role.role, role.part, role.split, role.source)))
        counts = (role.num_pods, role.gpus_per_pod, role.num_gpus)
        parallel = (role.tensor_parallel, role.data_parallel) if role.num_engines else ("", "")
        roles.add_row(name, *(str(count) for count in (*counts, *parallel)))
    out.print(roles)
    for row in component_rows(made, run_path=report["runPath"]):
        ports = ", ".join(str(port) for port in row.ports) or "none"
        out.print(f"{row.name}: ports {ports}; config {row.config or 'none'}; log {row.log}")
        for command in row.commands:
            out.print(f"  {shlex.join(command.argv) or 'not placed'}")
    sizes = report["worldSizes"]
    for label, value in (
        ("world sizes", f"trainer {sizes['trainer']}, inference {sizes['inference']}"),
        ("policy at", report["baseUrl"]),
        ("admin URLs", ", ".join(report["adminUrls"])),
        ("served elsewhere", ", ".join(f"{one.url} ({one.path})" for one in made.endpoints)),
        ("weights", made.weight_broadcast),
        ("rollouts", made.rollout_transport),
        ("model", made.model_path or made.model),
        ("tasksets", ", ".join(made.tasksets)),
        ("volume", made.volume or "the cluster's default run volume"),
        ("image", made.image_tag),
        ("run directory", report["runPath"]),
        ("checkpoints", "checkpoints/" if made.checkpoints else "none ([ckpt] is absent)"),
        ("price", price_text(made)),
    ):
        if value:
            out.print(f"{label}: {value}")
    for name in report["notChecked"]:
        out.print(f"{name}: not checked (no --cluster)")
    for notice in report["notices"]:
        out.print(f"notice: {notice}")
