"""`paddock runs`: run directories that may go, and runs whose cluster is gone."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, opened, print_table, writing
from runtime.commands.session import Output, OutputOption, find_project, print_json, say
from runtime.errors import PaddockError, Problem, RunStateError, SettingsError

if TYPE_CHECKING:
    from runtime.control.prune import Candidate, PruneLimits
    from runtime.control.run_sources import RunSources
    from runtime.control.store.store import Store
    from runtime.control.values import StoredRun

runs_app = typer.Typer(
    no_args_is_help=True, help="Run directories that may go; runs whose cluster is gone."
)

_AGE = re.compile(r"(\d+)([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]i?)?B?")


@runs_app.command("prune")
def prune(
    older_than: Annotated[
        str | None, typer.Option(help="ended longer ago than this: 12h, 30d, 8w")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(help="all run directories together, the oldest go: 500Gi, 2T")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go")] = False,
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete run directories whose record is captured; nothing else ever deletes one."""
    from runtime.control import prune as pruning  # the server's libraries

    limits = _limits(older_than, max_size)
    with opened(database) as store:
        sources = _sources(store)
        candidates = list(_candidates(store, sources))
        gone = pruning.chosen(candidates, limits, now=datetime.now(UTC))
        kept = {} if dry_run else _remove_all(store, sources, gone)
    gone = [one for one in gone if one.run.run_id not in kept]
    candidates = [replace(one, keeps=kept.get(one.run.run_id, one.keeps)) for one in candidates]
    _show(candidates, gone, output=output, dry_run=dry_run)


@runs_app.command("abandon")
def abandon(
    run_id: Annotated[str, typer.Argument(help="run whose cluster is gone for good")],
    lost_at: Annotated[
        datetime | None,
        typer.Option(
            help="when the cluster was lost, in UTC: what the run cost after that is given back",
            formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"],
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="do not ask")] = False,
    database: DatabaseOption = None,
) -> None:
    """End a run in the record alone: nothing on its cluster is touched, should that still live."""
    from runtime.control.abandon import abandon as give_up  # the server's libraries

    asked = f"Give up {run_id}? What it still has on its cluster goes on, and is not captured."
    if not force and not typer.confirm(asked):
        raise typer.Abort
    with writing(database) as connection:
        time = lost_at.replace(tzinfo=UTC) if lost_at is not None else None
        run = give_up(connection, run_id, lost_at=time)
    typer.echo(f"{run.run_id} is {run.state}, capture={run.capture}: {run.reason}")


def parse_age(text: str) -> timedelta:
    """Return the time that 12h, 30d or 8w is; raises SettingsError for anything else."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise _wrong("older-than", text, "12h, 30d, 8w")
    try:
        age = timedelta(hours=int(match[1]) * _HOURS[match[2]])
        datetime.now(UTC) - age
    except (OverflowError, ValueError):  # no date is that old, or more digits than int() takes
        raise _wrong("older-than", text, "12h, 30d, 8w") from None
    return age


def parse_size(text: str) -> int:
    """Return the bytes that 500Gi, 2T or a number is; raises SettingsError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise _wrong("max-size", text, "500Gi, 2T, or bytes")
    unit = match[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    size = float(match[1]) * base ** ("KMGT".index(unit[0]) + 1 if unit else 0)
    if not isfinite(size):
        raise _wrong("max-size", text, "500Gi, 2T, or bytes")
    return int(size)


def _limits(older_than: str | None, max_size: str | None) -> "PruneLimits":
    from runtime.control.prune import PruneLimits

    if older_than is None and max_size is None:
        message = "nothing says which run directories are too many"
        problem = Problem(message=message, fix="--older-than 30d, --max-size 500Gi, or both")
        raise SettingsError([problem], source="runs prune")
    return PruneLimits(
        older_than=parse_age(older_than) if older_than is not None else None,
        max_bytes=parse_size(max_size) if max_size is not None else None,
    )


def _sources(store: "Store") -> "RunSources":
    from runtime.control.artifact_store import artifacts_url, open_artifact_store
    from runtime.control.known_clusters import KnownClusters
    from runtime.control.run_sources import RunSources

    clusters = KnownClusters(store, checkout=find_project(), environ=os.environ)
    clusters.refresh()
    return RunSources(clusters, open_artifact_store(artifacts_url(os.environ)))


def _candidates(store: "Store", sources: "RunSources") -> "Iterator[Candidate]":
    """Yield the runs whose directories are on this machine or on a cluster that answers."""
    from runtime.control.manifest import read_manifest
    from runtime.control.prune import Candidate, reason_to_keep

    assert sources.artifacts is not None, "the command has opened it"
    live = _live_runs(store)
    for run in _ended_runs(store):
        try:
            size = sources.size_of(run)
        except PaddockError as error:
            say(f"{run.run_id} is left out: {error}")
            continue
        if size:
            manifest = read_manifest(sources.artifacts, run.run_id)
            yield Candidate(run=run, size=size, keeps=reason_to_keep(run, manifest, live))


def _ended_runs(store: "Store") -> "Iterator[StoredRun]":
    from runtime.control.store.run_lists import ended_run_ids
    from runtime.control.store.runs import get_run

    with store.read() as connection:
        run_ids = ended_run_ids(connection)
    for run_id in run_ids:
        with store.read() as connection:
            run = get_run(connection, run_id)
        if run is not None:
            yield run


def _live_runs(store: "Store") -> "list[StoredRun]":
    from runtime.control.store.run_lists import live_runs

    with store.read() as connection:
        return live_runs(connection)


def _remove_all(
    store: "Store", sources: "RunSources", gone: "Iterable[Candidate]"
) -> dict[str, str]:
    """Delete what was chosen; return what was kept in spite of that, and why."""
    kept = {}
    for one in gone:
        try:
            _remove(store, sources, one)
        except RunStateError as error:
            kept[one.run.run_id] = str(error)
    return kept


def _remove(store: "Store", sources: "RunSources", one: "Candidate") -> None:
    from runtime.control.prune import remove_run
    from runtime.control.store import events, runs

    def read_again(run_id: str) -> "StoredRun | None":
        with store.read() as connection:
            return runs.get_run(connection, run_id)

    folders = sources.run_folders(one.run)
    assert folders is not None, "its size was read there"
    remove_run(one.run, folders, read_again=read_again, read_live=lambda: _live_runs(store))
    with store.write() as tx:
        events.add_event(tx, one.run, "pruned", message=f"{one.size} bytes of its directory")


def _show(
    candidates: "list[Candidate]", gone: "list[Candidate]", *, output: Output, dry_run: bool
) -> None:
    ids = {one.run.run_id for one in gone}
    rows = [
        {
            "run": one.run.run_id,
            "state": str(one.run.state),
            "ended": one.run.ended_at.isoformat() if one.run.ended_at else "",
            "bytes": one.size,
            "pruned": one.run.run_id in ids,
            "kept_because": one.keeps,
        }
        for one in candidates
    ]
    if output is Output.JSON:
        return print_json(rows)
    print_table(
        ["RUN", "STATE", "ENDED", "BYTES", "KEPT BECAUSE"],
        [
            [str(row[key]) for key in ("run", "state", "ended", "bytes", "kept_because")]
            for row in rows
            if row["pruned"] or row["kept_because"]
        ],
    )
    verb = "would be deleted" if dry_run else "are deleted"
    total = sum(one.size for one in gone)
    return typer.echo(f"{len(gone)} run directories {verb}: {total} bytes")


def _wrong(option: str, text: str, fix: str) -> SettingsError:
    problem = Problem(loc=(f"--{option}",), message=f"{text[:32]!r} is not understood", fix=fix)
    return SettingsError([problem], source="runs prune")
