"""`paddock train progress|metrics|rollouts|distributions|checkpoints|usage|components`.

The first four print JSON always, as the `prime` client does: they are read by programs.
"""

from typing import Annotated

import typer

from runtime.commands.remote.connection import (
    RunIdArgument,
    ServerOption,
    connected,
    minute,
    print_rows,
)
from runtime.commands.session import Output, OutputOption, print_json
from runtime.control.money import exact_usd

_SIZES = ("KiB", "MiB", "GiB", "TiB")


def metrics(
    run_id: RunIdArgument,
    min_step: Annotated[int | None, typer.Option(min=0, help="from this step on")] = None,
    max_step: Annotated[int | None, typer.Option(min=0, help="up to this step")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="the last N")] = None,
    server: ServerOption = None,
) -> None:
    """Print the metrics of a run as JSON."""
    query = {"min_step": min_step, "max_step": max_step, "limit": limit}
    with connected(server) as api:
        from runtime.client import runs

        found = runs.read_run(api, run_id, "metrics", query)
    print_json({"metrics": found.get("metrics", [])})


def rollouts(
    run_id: RunIdArgument,
    step: Annotated[int, typer.Option("--step", "-s", min=0, help="training step")],
    page: Annotated[int, typer.Option("--page", "-p", min=1, help="page, from 1")] = 1,
    num: Annotated[int, typer.Option("--num", "-n", min=1, max=1000, help="rollouts a page")] = 100,
    server: ServerOption = None,
) -> None:
    """Print the rollouts of a step as JSON."""
    with connected(server) as api:
        from runtime.client import runs

        query = {"page": page, "limit": num, "step": step}
        found = runs.read_run(api, run_id, "samples", query)
    keys = ("run_id", "samples", "total", "page", "limit", "total_pages")
    print_json({key: found.get(key) for key in keys})


def progress(run_id: RunIdArgument, server: ServerOption = None) -> None:
    """Print how far a run is as JSON."""
    with connected(server) as api:
        from runtime.client import runs

        found = runs.read_run(api, run_id, "progress", {})
    print_json(
        {
            "latest_step": found.get("latestStep"),
            "steps_with_samples": found.get("stepsWithSamples", []),
            "steps_with_distributions": found.get("stepsWithDistributions", []),
            "last_updated_at": found.get("lastUpdatedAt"),
        }
    )


def distributions(
    run_id: RunIdArgument,
    kind: Annotated[
        str | None, typer.Option("--type", "-t", help="what is counted; default: rewards")
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", "-s", min=0, help="default: the newest")
    ] = None,
    server: ServerOption = None,
) -> None:
    """Print a histogram of a step's rollouts as JSON."""
    with connected(server) as api:
        from runtime.client import runs

        found = runs.read_run(api, run_id, "distributions", {"type": kind, "step": step})
    print_json({"bins": found.get("bins", []), "step": found.get("step")})


def checkpoints(
    run_id: RunIdArgument,
    status: Annotated[
        str | None, typer.Option("--status", "-s", help="READY, PENDING, UPLOADING, FAILED")
    ] = None,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the checkpoints of a run."""
    with connected(server) as api:
        from runtime.client import runs

        found = runs.list_checkpoints(api, run_id, status)
    if output is Output.JSON:
        print_json({"checkpoints": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        typer.echo("No checkpoints found for this run.")
        return
    rows = [
        [
            one.id,
            str(one.step),
            one.status,
            _size(one.size_bytes) if one.size_bytes is not None else "-",
            minute(one.created_at),
            one.storage_url,
        ]
        for one in found
    ]
    print_rows(["ID", "STEP", "STATUS", "SIZE", "CREATED (UTC)", "WHERE"], rows)


def usage(
    run_id: RunIdArgument, server: ServerOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Show what a run has used and cost so far."""
    with connected(server) as api:
        from runtime.client import runs

        found = runs.get_usage(api, run_id)
    if output is Output.JSON:
        print_json(found.model_dump(mode="json"))
        return
    typer.echo(f"Usage of {found.run_id} ({found.run_name}, {found.status})\n")
    for label, value in (
        ("GPU-hours", f"{found.gpu_hours:.3f}"),
        ("Cost", exact_usd(found.total_cost_microusd)),
        ("Trained tokens", _count(found.training.tokens)),
        ("Inference tokens", _count(found.inference.tokens)),
        ("Inference input tokens", _count(found.inference.input_tokens)),
        ("Inference output tokens", _count(found.inference.output_tokens)),
    ):
        typer.echo(f"  {label}: {value}")


def components(
    run_id: RunIdArgument, server: ServerOption = None, output: OutputOption = Output.TEXT
) -> None:
    """List the components of a run: trainer, inference, orchestrator, env servers."""
    with connected(server) as api:
        from runtime.client import runs

        found = runs.list_components(api, run_id)
    if output is Output.JSON:
        print_json(found.model_dump(mode="json"))
        return
    names = [server_.env_name for server_ in found.env_servers]
    envs = {
        each.pod_name: (
            f"{each.env_name}/{each.env_index}"
            if names.count(each.env_name) > 1
            else each.env_name or ""
        )
        for each in found.env_servers
    }
    rows = [
        [part.name, part.role, envs.get(part.pod_name, ""), part.status, part.pod_name]
        for part in found.components
    ]
    print_rows(["COMPONENT", "ROLE", "ENV", "STATUS", "POD"], rows)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _size(num_bytes: int) -> str:
    """Return a size in the largest unit that it fills: a checkpoint has megabytes or terabytes."""
    size, unit = float(num_bytes), "B"
    for larger in _SIZES:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"
