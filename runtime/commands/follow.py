"""`paddock wait`, `logs`, `components`, `stop`: follow a run and end it, wherever it runs.

What talks to a cluster is imported where a run turns out to be on one: it costs a second that the
local target need not pay.
"""

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from runtime import naming
from runtime.commands.interrupts import end_by_interrupt
from runtime.commands.session import (
    Output,
    OutputOption,
    RunArgument,
    console,
    offline_project,
    open_project,
    print_json,
    say,
)
from runtime.control import stacks
from runtime.errors import NotFoundError, Problem, SettingsError
from runtime.launch.components import Component, build_components
from runtime.local_state import LocalRun
from runtime.locate import locate_run
from runtime.observe.local import read_components
from runtime.observe.log_filter import LineFilter, parse_since
from runtime.observe.logs import LogQuery, follow_log, read_log
from runtime.plan import plan_from_json
from runtime.progress import MetricsTail
from runtime.record import RunRecord
from runtime.states import EXIT_CODES
from runtime.supervisor_client import settle_run, stop_run

if TYPE_CHECKING:
    from runtime.cluster_runs import ClusterRun
    from runtime.observe.kubernetes.launched import LaunchedPod

_POLL_S = 0.5
_STOPPED = "stopped by paddock stop"


def wait(
    run_id: RunArgument,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="destroy the stack at the end")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Follow a run to its end: exit code 0 COMPLETED, 1 FAILED, 2 STOPPED."""
    run = _located(run_id)
    words = f"{run_id} goes on: paddock wait {run_id}, or paddock stop {run_id}"
    record = end_by_interrupt(lambda: follow(run), words=words)
    if destroy:
        stacks.destroy(open_project(), run_id, say)
    if output is Output.JSON:
        print_json(record.model_dump(mode="json"))
    else:
        console().print(
            f"{run_id} {record.state}" + (f": {record.reason}" if record.reason else "")
        )
        for line in record.exit.last_lines if record.exit else ():
            console().print(f"  {line}")
    raise typer.Exit(EXIT_CODES[record.state])


def follow(run: "LocalRun | ClusterRun") -> RunRecord:
    """Print states and rewards as they come, on stderr; return the record of the ended run."""
    if isinstance(run, LocalRun):
        return _follow_local(run)
    from runtime.commands.cluster_view import follow_cluster

    return follow_cluster(run)


def _follow_local(run: LocalRun) -> RunRecord:
    tail = MetricsTail(run.directory.metrics)
    shown = 0
    while True:
        record = settle_run(run)
        if record is None:
            raise NotFoundError(f"{run.run_id}: no record in {run.run_path}")
        for change in record.times[shown:]:
            stamp = change.time.astimezone().strftime("%H:%M:%S")
            reason = f" ({change.reason})" if change.reason else ""
            say(f"{stamp} {change.state}{reason}")
        shown = len(record.times)
        for step, reward in tail.new_rewards():
            say(f"  step {step:>4}  reward {reward:.3f}")
        if record.is_over:
            return record
        time.sleep(_POLL_S)


def stop(run_id: RunArgument, output: OutputOption = Output.TEXT) -> None:
    """Stop a run early and release its GPUs; its stack stays until it is destroyed."""
    run = _located(run_id)
    record = end_by_interrupt(lambda: _stopped(run), words=f"once more: paddock stop {run_id}")
    if output is Output.JSON:
        print_json(record.model_dump(mode="json"))
    else:
        console().print(f"{run_id} is {record.state}. Remove the rest: pulumi destroy -s {run_id}")


def logs(
    run_id: RunArgument,
    component: Annotated[
        str, typer.Option("--component", "-c", help="orchestrator, trainer, inference or router")
    ] = naming.ORCHESTRATOR,
    env: Annotated[str | None, typer.Option("--env", help="env server of this source")] = None,
    follow_: Annotated[
        bool, typer.Option("--follow", "-f", help="keep printing new lines")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="only the last N lines")
    ] = None,
    search: Annotated[str | None, typer.Option(help="only lines that contain this")] = None,
    regex: Annotated[str | None, typer.Option(help="only lines that match this")] = None,
    level: Annotated[str | None, typer.Option(help="this level and above, e.g. warning")] = None,
    since: Annotated[
        str | None, typer.Option(help="10m, or an ISO time; one without a zone is UTC")
    ] = None,
    attempt: Annotated[int | None, typer.Option(help="attempt; default: the newest")] = None,
) -> None:
    """Print the log of one component; while the run lives and after it."""
    run = _located(run_id)
    if search is not None and regex is not None:
        raise SettingsError([Problem(message="--search and --regex exclude each other")])
    moment = parse_since(since, now=time.time()) if since else None
    if moment is not None and moment > time.time():
        say(f"warning: --since {since} lies in the future: no line is that young")
    query = LogQuery(
        tail=tail,
        since=moment,
        wanted=LineFilter(level=level, search=regex or search, is_regex=regex is not None),
    )
    number = attempt or run.attempt
    if isinstance(run, LocalRun):
        paths = _log_files(run, number, component=component, env=env)
        show = partial(_print_files, run, paths, query, is_followed=follow_)
    else:
        from runtime.commands.cluster_view import print_logs

        choose = partial(_chosen_pods, run_id=run_id, component=component, env=env)
        show = partial(print_logs, run, number, query, choose=choose, is_followed=follow_)
    end_by_interrupt(show)


def components(run_id: RunArgument, output: OutputOption = Output.TEXT) -> None:
    """List the components of a run, with what their wrappers say."""
    run = locate_run(offline_project(), run_id)
    if not isinstance(run, LocalRun):
        _cluster_components(run, output)
        return
    statuses = {found.name: found for found in read_components(run.directory, run.attempt)}
    rows = []
    for component in _components(run):
        status = statuses.get(component.name)
        rows.append(
            {
                "name": component.name,
                "role": component.role.role,
                "source": component.role.source,
                "gpus": component.num_gpus,
                "state": str(status.state) if status else "not started",
                "pid": status.process.pid if status and status.process else None,
                "log": str(run.directory.logs(run.attempt) / component.log),
            }
        )
    if output is Output.JSON:
        print_json(rows)
        return
    table = Table("Component", "Role", "GPUs", "State", "Log", box=None)
    for row in rows:
        cells = [str(row[key]) for key in ("name", "role", "gpus", "state")]
        table.add_row(*cells, str(Path(str(row["log"])).relative_to(run.run_path)))
    console().print(table)


def _located(run_id: str) -> "LocalRun | ClusterRun":
    return end_by_interrupt(lambda: locate_run(offline_project(), run_id))


def _stopped(run: "LocalRun | ClusterRun") -> RunRecord:
    if isinstance(run, LocalRun):
        return stop_run(run, reason=_STOPPED)
    from runtime.cluster_runs import stop_cluster_run

    return stop_cluster_run(run, reason=_STOPPED)


def _print_files(run: LocalRun, paths: list[Path], query: LogQuery, *, is_followed: bool) -> None:
    """Print the wanted lines of the logs, one after the other; follow one alone."""
    if is_followed and len(paths) > 1:
        names = ", ".join(path.stem for path in paths)
        raise SettingsError(
            [Problem(message=f"-f follows one component, these are {names}: name one")]
        )
    for path in paths:
        lines = (
            follow_log(path, query, is_over=lambda: _is_over(run))
            if is_followed
            else read_log(path, query)
        )
        for line in lines:
            typer.echo(line)


def _is_over(run: LocalRun) -> bool:
    record = settle_run(run)
    return record is None or record.is_over


def _components(run: LocalRun) -> tuple[Component, ...]:
    try:
        return build_components(plan_from_json(run.directory.plan.read_bytes()))
    except OSError:
        raise NotFoundError(f"{run.run_id}: {run.directory.plan} is missing") from None


def _log_files(run: LocalRun, attempt: int, *, component: str, env: str | None) -> list[Path]:
    """Return the log files that a component name stands for: a role, or one of its components."""
    known = _components(run)
    found = [
        one
        for one in known
        if (env is not None and one.role.role == naming.ENV_SERVER and one.role.source == env)
        or (env is None and component in {one.name, one.role.role})
    ]
    if not found:
        raise _no_component(run.run_id, component, env, [one.name for one in known])
    return [run.directory.logs(attempt) / one.log for one in found]


def _cluster_components(run: "ClusterRun", output: Output) -> None:
    from runtime.cluster_runs import component_rows
    from runtime.commands.cluster_view import print_components

    rows, record = component_rows(run)
    if output is Output.JSON:
        print_json(rows)
    else:
        print_components(rows, record)


def _chosen_pods(
    pods: "tuple[LaunchedPod, ...]", *, run_id: str, component: str, env: str | None
) -> "list[LaunchedPod]":
    """Return the pods that a component name stands for: a role, or one of its components."""
    found = [
        one
        for one in pods
        if (env is not None and one.role == naming.ENV_SERVER and one.source == env)
        or (env is None and component in {one.component, one.role})
    ]
    if not found:
        raise _no_component(run_id, component, env, [one.component for one in pods])
    return found


def _no_component(run_id: str, component: str, env: str | None, known: list[str]) -> SettingsError:
    what = f"env server of source {env}" if env is not None else f"component {component}"
    names = ", ".join(known) or "none that is known"
    return SettingsError(
        [Problem(message=f"{run_id} has no {what}; it has {names}", code="component")]
    )
