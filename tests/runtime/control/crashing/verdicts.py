"""What has to hold once a run of the rounds is over, and once all of them are."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.control.operations import OperationKind
from runtime.control.projects import run_folder
from runtime.control.store import leases, run_lists, usage
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.observe.local import read_components
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.crashing.plane import Plane
from tests.runtime.control.crashing.rounds import OF_THE_RUN, Intent, Round, Victim
from tests.runtime.control.crashing.strikes import Strike
from tests.secret_search import files_with_value

CANARY = "canary-5e1f80"
"""The secret of every second run."""

_LINE = re.compile(r"12:00:00 INFO line (\d+) of (\S+)")
_ROLES = {"orchestrator": "orchestrator", "trainer-0": "trainer", "inference-0": "inference"}
_MAX_LINES = 5000
_MAKING_LOST = "dispatch it again"
"""What a run says whose secrets were lost with the server or the worker that had them."""

_OF_SERVER = {".server", ".stacks"}
"""The projects in which a server only reads."""

_ENDS = {
    Intent.NONE: RunState.COMPLETED,
    Intent.FAIL: RunState.FAILED,
    Intent.STOP: RunState.STOPPED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A round that is over: its run, what was killed, whether a server died meanwhile."""

    one: Round
    run: StoredRun
    strike: Strike | None
    has_lost_server: bool


def problems_of(plane: Plane, played: Played) -> list[str]:
    """Return what is wrong with a run that is over; nothing when all is well."""
    run = played.run
    found = []
    if run.teardown is not Teardown.DONE or run.capture is not Capture.DONE:
        found.append(f"teardown {run.teardown}, capture {run.capture}")
    if not _may_have_ended_so(played):
        found.append(f"ended {run.state}: {run.reason}")
    if run_folder(run.run_id, plane.site.home).path.exists():
        found.append("its private project is left")
    stacks = plane.site.backend / ".pulumi" / "stacks"
    found += [f"left: {path}" for path in stacks.glob(f"*/{run.run_id}.json")]
    found += _start_problems(plane, played)
    found += _log_problems(plane, played)
    return [f"round {played.one.number}, {run.run_id}: {problem}" for problem in found]


def problems_of_all(plane: Plane, store: Store, *, num_rounds: int) -> list[str]:
    """Return what all runs together have left, once the server has ended."""
    site = plane.site
    found = [*site.leftovers(), *_stored_problems(store, num_rounds=num_rounds)]
    projects = site.home / "projects"
    found += [f"left: {path}" for path in projects.glob("*") if path.name not in _OF_SERVER]
    listed = site.pulumi("stack", "ls").out
    found += [f"stack: {line}" for line in listed.splitlines()[1:] if site.cluster not in line]
    found += [f"a secret in {path}" for path in files_with_value(site.folder, CANARY)]
    return found


def _stored_problems(store: Store, *, num_rounds: int) -> Iterator[str]:
    """Yield what of the runs is not over in the store, and runs that nobody asked for."""
    with store.read() as tx:
        run_ids = run_lists.ended_run_ids(tx)
        if len(run_ids) != num_rounds:
            yield f"{len(run_ids)} runs are over, {num_rounds} were dispatched"
        yield from (f"{run.run_id} is {run.state}" for run in run_lists.live_runs(tx))
        for run_id in run_ids:
            if any(use.ended_at is None for use in usage.list_intervals(tx, run_id)):
                yield f"{run_id} is still paid for"
        yield from (f"lease {lease.name} of {lease.holder}" for lease in leases.list_held(tx))


def _may_have_ended_so(played: Played) -> bool:
    run, one, hit = played.run, played.one, played.strike
    making_was_hit = hit is not None and hit.operation is OperationKind.MAKE
    # what a run without secrets had lost was made again
    if run.state is RunState.FAILED and run.attempt == 1 and run.secret_names:
        if making_was_hit and one.victim in {Victim.WORKER, Victim.ENGINE}:
            return True
        if played.has_lost_server and _MAKING_LOST in run.reason:
            return True
    if hit is not None and one.victim in OF_THE_RUN:
        return run.state is not RunState.STOPPED or one.intent is Intent.STOP
    return run.state is _ENDS[one.intent]


def _start_problems(plane: Plane, played: Played) -> Iterator[str]:
    """Yield what was started twice."""
    for path in sorted((_run_path(plane, played) / "starts").glob("*")):
        if path.suffix == ".count":
            continue
        num_starts = len(path.read_text().splitlines())
        if num_starts == 0 and played.strike is not None:
            continue  # it was killed between making the file and writing into it
        if num_starts != 1:
            yield f"{path.name} was started {num_starts} times"


def _log_problems(plane: Plane, played: Played) -> Iterator[str]:
    run = played.run
    directory = plane.site.local_run(run.run_id).directory
    for component in read_components(directory, 1):
        name = component.name
        try:
            lines = (directory.logs(1) / component.log).read_text().splitlines()
        except FileNotFoundError:
            lines = []
        num_printed = _num_printed(directory.path / "starts" / f"{name}.count")
        if played.one.victim in {Victim.SUPERVISOR, Victim.WRAPPER}:
            num_printed = 0  # what was in the pipe went with them
        shown = _shown(plane, run, name)
        yield from line_problems(name, lines, shown=shown, num_printed=num_printed)


def line_problems(
    name: str, lines: list[str], *, shown: list[str], num_printed: int
) -> Iterator[str]:
    """Yield what a component's log lacks, and what is shown of it after the teardown."""
    numbers = [int(line[1]) for line in map(_LINE.fullmatch, lines) if line and line[2] == name]
    for index, number in enumerate(numbers, start=1):
        if number != index:
            yield f"{name}: line {index} of its log is its line {number}"
            break
    if len(numbers) < num_printed:
        yield f"{name}: {num_printed} lines were printed, {len(numbers)} are in its log"
    if shown != lines:
        yield f"{name}: {len(lines)} lines are in its log, {len(shown)} others are shown"


def _shown(plane: Plane, run: StoredRun, name: str) -> list[str]:
    role = _ROLES.get(name)
    query = {"component": "env-server", "env_name": name.removeprefix("env-train-")}
    if role is not None:
        query = {"component": role}
    answer = plane.ask(
        "GET", f"/rft/runs/{run.run_id}/logs", query={**query, "tail_lines": _MAX_LINES}
    )
    return str(answer["logs"]).splitlines()


def _num_printed(path: Path) -> int:
    try:
        return int(path.read_text() or "0")
    except FileNotFoundError:
        return 0


def _run_path(plane: Plane, played: Played) -> Path:
    return plane.site.local_run(played.run.run_id).directory.path
