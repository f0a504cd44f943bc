"""`paddock train list|get|stop|pause|restart|delete`: runs of a server, looked at and ended."""

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.client.printable import printable
from runtime.commands.remote.connection import (
    ForceOption,
    RunIdArgument,
    ServerOption,
    confirm,
    connected,
    minute,
    print_rows,
)
from runtime.commands.session import Output, OutputOption, print_json, say

if TYPE_CHECKING:
    from runtime.client.answers import Run

_MODEL_CHARS = 30
_NUM_ENVIRONMENTS = 3


def list_runs(
    team: Annotated[str | None, typer.Option("--team", "-t", help="id of a team")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="only your own")] = False,
    num: Annotated[int, typer.Option("--num", "-n", min=1, max=1000, help="runs a page")] = 20,
    page: Annotated[int, typer.Option("--page", "-p", min=1, help="page, from 1")] = 1,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List runs, newest first."""
    with connected(server) as api:
        from runtime.client import runs

        query = {"page": page, "limit": num, "team_id": team, "mine": True if mine else None}
        found = runs.list_runs(api, query)
    if output is Output.JSON:
        shown = [run.model_dump(mode="json") for run in found.runs]
        print_json({"runs": shown, "total": found.total, "page": page, "per_page": num})
        return
    if not found.runs:
        typer.echo("No more results." if page > 1 else "No runs found.")
        return
    columns = ["ID", "STATUS", "MODEL", "ENVIRONMENTS", "STEPS", "GPUS", "CREATED (UTC)"]
    print_rows(columns, [_row(run) for run in found.runs])
    if found.total > page * num:
        typer.echo(f"\nShowing page {page}. Use --page {page + 1} to see more.")
    else:
        typer.echo(f"\nTotal: {found.total} run(s)")


def get_run(
    run_id: RunIdArgument, server: ServerOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Show a run: its state, the reason for it, and what it is made of."""
    with connected(server) as api:
        from runtime.client import runs

        run = runs.get_run(api, run_id)
    if output is Output.JSON:
        print_json({"run": run.model_dump(mode="json")})
        return
    typer.echo(f"Run {run.id}\n")
    for label, value in _facts(run):
        if value:
            typer.echo(f"  {label}: {printable(value)}")
    analysis = run.failure_analysis
    if analysis is not None:
        cause = printable(analysis.root_cause)
        typer.echo(f"\nFailure Analysis\n  Root Cause: {cause}\n  Evidence:")
        for line in analysis.evidence:
            typer.echo(f"    {printable(line)}")


def stop(
    run_id: RunIdArgument,
    force: ForceOption = False,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Stop a run early to release its GPUs; returns when nothing of it runs."""
    confirm(f"Are you sure you want to stop run {run_id}?", is_forced=force)
    with connected(server) as api:
        from runtime.client import runs

        run = runs.stop_run(api, run_id)
    if output is Output.JSON:
        print_json({"run": run.model_dump(mode="json")})
        return
    if not run.is_over:
        say(f"It takes longer, and goes on without you: paddock train get {run_id}")
    elif run.status == "STOPPED":
        typer.echo(f"Run {run_id} stopped successfully")
    else:
        typer.echo(f"Run {run_id} had ended before it was stopped")
    typer.echo(f"Status: {run.status}")


def pause(run_id: RunIdArgument, force: ForceOption = False, server: ServerOption = None) -> None:
    """Checkpoint a run and release its GPUs; `paddock train resume` goes on from there."""
    confirm(f"Are you sure you want to pause run {run_id}?", is_forced=force)
    with connected(server) as api:
        from runtime.client import runs

        status = runs.pause_run(api, run_id)
    typer.echo(f"Run {run_id} is pausing\nStatus: {status}")
    typer.echo(f"Check progress with: paddock train get {run_id}")
    typer.echo(f"Once PAUSED, resume with: paddock train resume {run_id}")


def restart(run_id: RunIdArgument, force: ForceOption = False, server: ServerOption = None) -> None:
    """End a running run and go on from its last checkpoint."""
    confirm(f"Are you sure you want to restart run {run_id}?", is_forced=force)
    with connected(server) as api:
        from runtime.client import runs

        run = runs.restart_run(api, run_id)
    typer.echo(f"Run {run_id} restarting from checkpoint\nStatus: {run.status}")


def delete(run_id: RunIdArgument, force: ForceOption = False, server: ServerOption = None) -> None:
    """Delete a run; one that lives is stopped first."""
    confirm(f"Are you sure you want to permanently delete run {run_id}?", is_forced=force)
    with connected(server) as api:
        from runtime.client import runs

        runs.delete_run(api, run_id)
    typer.echo(f"Run {run_id} deleted successfully")


def _row(run: "Run") -> list[str]:
    return [
        run.id,
        run.status,
        (run.base_model or "")[:_MODEL_CHARS],
        _environments(run),
        _number(run.max_steps),
        _number(run.gpu_count),
        minute(run.created_at),
    ]


def _facts(run: "Run") -> list[tuple[str, str]]:
    """Return what is shown of a run, an empty value where there is nothing to say."""
    status = run.status
    if status == "QUEUED" and run.runs_ahead is not None:
        status += f" ({run.runs_ahead} runs ahead)"
    has_wandb = run.wandb_project is not None
    return [
        ("Name", run.name or ""),
        ("Status", status),
        ("Reason", run.reason),
        ("Notice", run.notice or ""),
        ("Cluster", run.prime_cluster_id or ""),
        ("Model", run.base_model or ""),
        ("Environments", _environments(run)),
        ("Max Steps", _number(run.max_steps) or "-"),
        ("GPUs", _number(run.gpu_count) or "-"),
        ("Batch Size", _number(run.batch_size) or "-"),
        ("Rollouts per Example", _number(run.rollouts_per_example) or "-"),
        ("Max Tokens", _number(run.max_tokens)),
        ("Volume", run.volume_name or ""),
        ("W&B", f"{run.wandb_entity or ''}/{run.wandb_project}" if has_wandb else ""),
        ("Team", run.team_id or ""),
        ("Attempt", _number(run.attempt)),
        ("Created", minute(run.created_at)),
        ("Started", minute(run.started_at)),
        ("Completed", minute(run.completed_at)),
        ("Logs and files", f"capture {run.capture}" if run.capture != "none" else ""),
        ("Resources", f"teardown {run.teardown}" if run.teardown != "none" else ""),
    ]


def _environments(run: "Run") -> str:
    names = [environment.name for environment in run.environments]
    more = len(names) - _NUM_ENVIRONMENTS
    return ", ".join(names[:_NUM_ENVIRONMENTS]) + (f" +{more}" if more > 0 else "")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
