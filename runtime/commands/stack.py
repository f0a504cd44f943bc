"""`paddock env`, `paddock stack new`, `paddock destroy`, `paddock resume`: stacks by hand."""

import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime import naming
from runtime.admission import admission_problems
from runtime.cluster import ClusterProfile, parse_profile
from runtime.commands.session import RunArgument, console, open_project, say
from runtime.config import DispatchFlags, LoadedConfig, read_config_file
from runtime.control import stacks
from runtime.control.backend import backend_environment
from runtime.control.dispatch import new_run_stack
from runtime.errors import NotFoundError, RefusedError, RunStateError, SettingsError
from runtime.kubernetes_errors import KubernetesError
from runtime.local_state import LocalRun
from runtime.locate import locate_run, run_connection, state_paths
from runtime.plan import build_plan
from runtime.record import RunRecord
from runtime.secret_rules import read_env_file, read_env_flags, secret_problems
from runtime.stack_settings import bad_run_id
from runtime.states import RunState
from runtime.supervisor_client import release_run, settle_run
from runtime.toolchain import engine_environment

if TYPE_CHECKING:
    from runtime.cluster_runs import ClusterRun

stack_app = typer.Typer(no_args_is_help=True, help="Make stacks and their settings files.")


def env() -> None:
    """Print the exports with which plain `pulumi` works: eval "$(paddock env)"."""
    engine = engine_environment(os.environ)  # without what hides the engine's plugins
    wanted = {**engine, **backend_environment(os.environ)}
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            typer.echo(f"export {name}={shlex.quote(value)}")
    for name in sorted(os.environ.keys() - engine.keys()):
        typer.echo(f"unset {name}")


@stack_app.command("new")
def new(
    stack: Annotated[str, typer.Argument(help="name of the stack, which is the run's id")],
    toml: Annotated[Path, typer.Argument(help="prime-rl TOML of the run")],
    cluster: Annotated[str, typer.Option(help="cluster stack to place the run on")] = "local",
    volume: Annotated[str | None, typer.Option(help="volume stack for the run directory")] = None,
    resume_from: Annotated[
        str | None,
        typer.Option(metavar="RUN[:STEP]", help="start with the checkpoint of another run"),
    ] = None,
    env_vars: Annotated[
        list[str] | None,
        typer.Option("--env-var", "-e", help="secret: KEY (from this shell) or KEY=VALUE"),
    ] = None,
    env_file: Annotated[Path | None, typer.Option(help="0600 file of KEY=VALUE lines")] = None,
    gpu_type: Annotated[str | None, typer.Option(help="GPU type, e.g. H200_141GB")] = None,
    image_tag: Annotated[str | None, typer.Option(help="prime-rl image tag")] = None,
) -> None:
    """Make a run's stack and its settings file; nothing is started."""
    if not naming.is_run_id(stack):
        raise SettingsError([bad_run_id(stack)], source="stack new")
    values = read_env_file(env_file) if env_file else {}
    values |= read_env_flags(env_vars or [], os.environ)
    problems = secret_problems(values)
    if problems:
        raise SettingsError(problems, source="stack new")
    flags = DispatchFlags(image_tag=image_tag, gpu_type=gpu_type)
    project = open_project()
    profile = _profile_if_up(project, cluster)
    loaded = read_config_file(
        toml,
        flags=flags,
        secret_names=frozenset(values),
        allow_unknown_fields=profile.allow_unknown_fields if profile else False,
    )
    if profile is not None and volume is not None and volume in stacks.list_stacks(project):
        profile = profile.on_volume(stacks.outputs(project, volume).get("shared"))
    _refuse(loaded, stack=stack, profile=profile)
    settings = {
        "config": _relative(toml, project.path),
        "cluster": cluster,
        "volume": volume,
        "resumeFrom": resume_from,
        "gpuType": gpu_type,
        "imageTag": image_tag,
    }
    new_run_stack(project, stack, settings, secrets=values)
    console().print(
        f"Stack {stack} is made; its settings are in {project.settings_file(stack)}\n\n"
        f"  pulumi preview -s {stack}\n"
        f"  pulumi up -s {stack}\n"
        f"  paddock wait {stack}"
    )


def destroy(
    run_id: RunArgument,
    remove: Annotated[bool, typer.Option("--remove", help="remove the stack too")] = False,
) -> None:
    """End a run and remove all that it owns, after a crash too; its run directory stays."""
    project = open_project()
    run = _locate(project, run_id)
    has_stack = run_id in stacks.list_stacks(project)
    if has_stack:
        stacks.destroy(project, run_id, say)
        if remove:
            stacks.remove_stack(project, run_id)
    elif run is None:
        raise NotFoundError(f"no stack and no run {run_id}: `pulumi stack ls` lists the stacks")
    # what a killed `up` left and no state knows
    if isinstance(run, LocalRun):
        for owned in _owned(project, run_id, run):
            release_run(owned, is_destroy=True)
    elif run is not None:
        _sweep_cluster(run)
    console().print(f"{run_id} is destroyed; nothing of it runs")


def resume(run_id: RunArgument) -> None:
    """Start the next attempt of a run that is over or preempted, from its last checkpoint."""
    project = open_project()
    run = locate_run(project, run_id)
    record = _settled(run)
    attempt = _next_attempt(project, record, run_id)
    if run_id not in stacks.list_stacks(project):
        stacks.init_stack(project, run_id)
    stacks.set_setting(project, run_id, "attempt", str(attempt))
    stacks.up(project, run_id, say)
    console().print(f"{run_id} is at attempt {attempt}: paddock wait {run_id}")


def _settled(run: "LocalRun | ClusterRun") -> RunRecord | None:
    if isinstance(run, LocalRun):
        return settle_run(run)
    from runtime.cluster_runs import settle_cluster_run

    return settle_cluster_run(run)


def _next_attempt(project: stacks.Project, record: RunRecord | None, run_id: str) -> int:
    """Return the attempt that may start now: the next one, or the one that a preemption opened."""
    if record is not None and record.is_over:
        return record.attempt + 1
    if record is not None and record.state is RunState.QUEUED and record.attempt > 1:
        with contextlib.suppress(NotFoundError):
            if int(stacks.read_settings(project, run_id).get("attempt", 1)) < record.attempt:
                return record.attempt
    state = record.state if record else "unknown"
    raise RunStateError(
        f"{run_id} is {state}: only a run that is over or was preempted can be resumed: "
        f"`paddock stop {run_id}` ends it"
    )


def _sweep_cluster(run: "ClusterRun") -> None:
    """Remove what carries the run's label, whether a state knows it or not."""
    from runtime import kubernetes_run

    kubernetes_run.destroy_run(
        {
            "runId": run.run_id,
            "attempt": run.attempt,
            "cluster": run.connection.context,
            "context": run.connection.context,
            "namespace": run.connection.namespace,
        }
    )


def _profile_if_up(project: stacks.Project, cluster: str) -> ClusterProfile | None:
    """Return the cluster's profile, None for a stack that may still be made or brought up."""
    is_made = cluster in stacks.list_stacks(project)
    found = stacks.outputs(project, cluster).get("profile") if is_made else None
    if found is not None:
        return parse_profile(found, cluster=cluster)
    what = "is not up" if is_made else "is no stack of this backend"
    say(f"notice: cluster {cluster} {what} yet: bring it up before the run")
    return None


def _refuse(loaded: LoadedConfig, *, stack: str, profile: ClusterProfile | None) -> None:
    """Raise RefusedError for what can be judged now; without a cluster that is the GPU cap."""
    plan = build_plan(loaded, run_id=stack, profile=profile)
    problems = admission_problems(plan, profile=profile)
    if profile is None:
        problems = [problem for problem in problems if problem.code == "gpu_cap"]
    if problems:
        raise RefusedError(problems, source=f"run {stack}")


def _locate(project: stacks.Project, run_id: str) -> "LocalRun | ClusterRun | None":
    """Return where a run is; of one without a record, the cluster that its settings name."""
    try:
        return locate_run(project, run_id)
    except NotFoundError:
        connection = run_connection(project, run_id)
    except KubernetesError as error:
        say(f"{error}")  # its stack's own destroy waits for the cluster, and says what it leaves
        connection = run_connection(project, run_id)
    if connection is None:
        return None
    from runtime.cluster_runs import ClusterRun

    return ClusterRun(connection=connection, run_id=run_id, attempt=1)


def _owned(project: stacks.Project, run_id: str, run: LocalRun) -> list[LocalRun]:
    """Return the run in every state directory, so that a sweep finds what no index names."""
    paths = [run.state_path, *state_paths(project)]
    return [
        LocalRun(state_path=path, run_path=run.run_path, run_id=run_id, attempt=run.attempt)
        for path in dict.fromkeys(paths)
        if path.is_dir()
    ]


def _relative(path: Path, root: Path) -> str:
    absolute = path.resolve()
    return str(absolute.relative_to(root) if absolute.is_relative_to(root) else absolute)
