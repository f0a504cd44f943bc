"""How runs on Kubernetes are shown: followed, listed, and their logs printed. Used by `follow`."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.table import Table

from runtime.cluster_runs import (
    ClusterRun,
    open_logs,
    read_cluster_record,
    watch_cluster_run,
)
from runtime.commands.session import console, say
from runtime.errors import Problem, SettingsError
from runtime.observe.kubernetes.launched import LaunchedPod
from runtime.observe.kubernetes.observer import RunView
from runtime.observe.kubernetes.run_files import METRICS, FilesUnavailableError, RunFiles
from runtime.observe.logs import LogQuery
from runtime.progress import rewards_in
from runtime.run_record import RunRecord

_SILENCE_S = 30.0


def follow_cluster(run: ClusterRun) -> RunRecord:
    """Print states, what they wait for and rewards as they come; return the ended run's record."""
    shown = _Shown()
    for view, files in watch_cluster_run(run):
        for line in shown.news(view):
            say(line)
        for step, reward in shown.rewards(run.run_id, files):
            say(f"  step {step:>4}  reward {reward:.3f}")
    return read_cluster_record(run)


def print_components(rows: list[dict[str, Any]], record: RunRecord) -> None:
    """Print the components of a run, and what is wrong with it although it goes on."""
    table = Table("Component", "Role", "GPUs", "State", "Pod", "Node", "Log", box=None)
    for row in rows:
        keys = ("name", "role", "gpus", "state", "pod", "node", "log")
        table.add_row(*("" if row[key] is None else str(row[key]) for key in keys))
    console().print(table)
    for row in rows:
        if row["detail"]:
            console().print(f"{row['name']}: {row['detail']}")
    for warning in record.warnings:
        console().print(f"warning: {warning}")


def print_logs(
    run: ClusterRun,
    attempt: int,
    query: LogQuery,
    *,
    choose: Callable[[tuple[LaunchedPod, ...]], list[LaunchedPod]],
    is_followed: bool,
) -> None:
    """Print the wanted lines of the chosen logs, one after the other; follow one alone."""
    with open_logs(run, say) as logs:
        chosen = choose(logs.launched(attempt).pods)
        if is_followed and len(chosen) > 1:
            names = ", ".join(one.component for one in chosen)
            raise SettingsError(
                [Problem(message=f"-f follows one component, these are {names}: name one")]
            )
        for one in chosen:
            for line in logs.lines(attempt, one, query, is_followed=is_followed):
                typer.echo(line)


@dataclass(slots=True)
class _Shown:
    """What has been printed of a run so far."""

    num_changes: int = 0
    waits_for: str = ""
    warnings: set[str] = field(default_factory=set)
    silence_told: float = 0.0
    offset: int = 0

    def news(self, view: RunView) -> Iterator[str]:
        """Yield a line for each thing that is new."""
        record = view.record
        for change in record.times[self.num_changes :]:
            stamp = change.time.astimezone().strftime("%H:%M:%S")
            reason = f" ({change.reason})" if change.reason else ""
            self.waits_for = change.reason
            yield f"{stamp} {change.state}{reason}"
        self.num_changes = max(self.num_changes, len(record.times))
        if view.waits_for and view.waits_for != self.waits_for and not record.is_over:
            self.waits_for = view.waits_for
            yield f"  {view.waits_for}"
        for warning in record.warnings:
            if warning not in self.warnings:
                self.warnings.add(warning)
                yield f"  warning: {warning}"
        yield from self._silence(view)

    def rewards(self, run_id: str, files: RunFiles) -> Iterator[tuple[int, float]]:
        """Yield the rewards that came since the last call; none while the files cannot be read."""
        try:
            piece = files.read(run_id, METRICS, offset=self.offset)
        except FilesUnavailableError:
            return
        if piece is not None:
            whole = piece.data[: piece.data.rfind(b"\n") + 1]
            self.offset += len(whole)
            yield from rewards_in(whole)

    def _silence(self, view: RunView) -> Iterator[str]:
        since = view.unreachable_since
        if since is None:
            if self.silence_told:
                yield "  the Kubernetes API answers again"
            self.silence_told = 0.0
        elif time.monotonic() - self.silence_told >= _SILENCE_S:
            self.silence_told = time.monotonic()
            stamp = time.strftime("%H:%M:%S", time.localtime(since))
            yield f"  the cluster cannot be reached since {stamp}; nothing is lost, waiting"
