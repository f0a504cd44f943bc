"""RunOrigin: what binds a new run to a place: its volume, the run whose checkpoint it starts with.

Looked up in the store by `runtime.control.dispatcher`, before anything is made. A checkpoint is
where its run was: on that run's cluster and volume, so that is where the new run goes.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import Connection

from runtime.checkpoints import steps_of
from runtime.control.artifact_store import ArtifactStoreError
from runtime.control.checkpoint_return import kept_steps
from runtime.control.dispatch_rules import bad_origin, no_volume, unready_volume
from runtime.control.known_clusters import VOLUME_PREFIX
from runtime.control.requests import CreateRun
from runtime.control.run_source import SourceUnavailableError
from runtime.control.run_sources import RunSources
from runtime.control.store import run_lists, volumes
from runtime.control.values import StoredRun, User, Volume, VolumeStatus, wallet_id_of
from runtime.resume_from import parse_resume_from
from runtime.states import RunState

FirstSteps = Callable[[StoredRun], tuple[int, ...] | None]
"""Returns the steps of a run's checkpoints that another run can start with, None where that cannot
be told now."""

WAIT_S = 3.0
"""How long a request waits for a cluster to list the checkpoints of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOrigin:
    """A volume, and a run that has a checkpoint; a run that names neither goes anywhere."""

    volume: Volume | None = None
    source: StoredRun | None = None

    @property
    def is_bound(self) -> bool:
        """Tell whether one cluster only can take the run."""
        return self.volume is not None or self.source is not None

    def allows(self, cluster: str) -> bool:
        """Tell whether a cluster can take the run."""
        wanted = {self.volume.cluster} if self.volume is not None else set()
        wanted |= {self.source.cluster} if self.source is not None else set()
        return wanted <= {cluster}


def find_origin(
    connection: Connection, user: User, request: CreateRun, volume_name: str | None
) -> RunOrigin:
    """Return what binds a run; raises RefusedError for what the user has not, or cannot be used."""
    owner = {"user_id": user.user_id, "team_id": request.team_id}
    volume = None
    if volume_name is not None:
        volume = volumes.get_volume(connection, volume_name, **owner)
        if volume is None:
            raise no_volume(volume_name)
    source = _find_source(connection, user, request.resume_from)
    if source is not None:
        lies_on = _volume_of(connection, source)
        if lies_on is not None and _owner(lies_on) != wallet_id_of(**owner):
            what = f"the checkpoint is on volume {lies_on.name}, which is not this run's owner's"
            raise bad_origin(what, "dispatch it for the team or user that the volume belongs to")
        if volume is not None and volume != lies_on:
            what = f"volume {volume.name} is not where the checkpoint of {source.run_id} is"
            raise bad_origin(what, f"leave the volume out: that of {source.run_id} is used")
        volume = lies_on
    if volume is not None and volume.status is not VolumeStatus.RUNNING:
        raise unready_volume(volume.name, volume.status)
    return RunOrigin(volume=volume, source=source)


def hold_volume(connection: Connection, volume: Volume | None) -> None:
    """Raise RefusedError where a volume may be used no more; else it may, to the transaction's end.

    For the transaction that stores the run: it may have been deleted since `find_origin`.
    """
    if volume is None:
        return
    found = volumes.find_volume(connection, volume.volume_id, locks=True)
    if found is None:
        raise no_volume(volume.name)
    if found.status is not VolumeStatus.RUNNING:
        raise unready_volume(found.name, found.status)


def steps_in_cluster(sources: RunSources) -> FirstSteps:
    """Return what lists the checkpoints of a run in its cluster, else those that were captured.

    It waits WAIT_S at most: a cluster may take a request and never answer it.
    """

    def first_steps(run: StoredRun) -> tuple[int, ...] | None:
        listed: Future[tuple[int, ...] | None] = Future()

        def read() -> None:
            try:
                listed.set_result(_live_steps(sources, run) or _captured_steps(sources, run))
            except Exception as error:  # the request raises it
                listed.set_exception(error)

        threading.Thread(target=read, name="checkpoints", daemon=True).start()
        try:
            return listed.result(WAIT_S)
        except TimeoutError:
            return None

    return first_steps


def _live_steps(sources: RunSources, run: StoredRun) -> tuple[int, ...]:
    try:
        live = sources.live(run)
        entries = live.entries("checkpoints") if live is not None else []
    except SourceUnavailableError:
        return ()
    return tuple(steps_of(one.name for one in entries if one.is_dir))


def _captured_steps(sources: RunSources, run: StoredRun) -> tuple[int, ...] | None:
    try:
        captured = sources.captured(run)
        live = sources.live(run)
        if captured is not None and (steps := kept_steps(captured.manifest)):
            return steps
        # a server that shows nothing of the run may not show its volume: `prepare` will tell
        return () if live is not None and live.entries("") else None
    except (ArtifactStoreError, SourceUnavailableError):
        return None


def _find_source(connection: Connection, user: User, text: str | None) -> StoredRun | None:
    if text is None:
        return None
    try:
        run = run_lists.visible_run(connection, user, parse_resume_from(text).run_id)
    except ValueError as error:
        raise bad_origin(str(error), "") from None
    if run is None:
        raise bad_origin("Run not found", "")
    if not run.is_over and run.state is not RunState.PAUSED:
        what = f"{run.run_id} is {run.state}, its checkpoints may still change"
        raise bad_origin(what, "pause or stop it, and wait until it is PAUSED or over")
    if run.cluster is None:
        raise bad_origin(f"{run.run_id} never ran, so it has no checkpoint", "")
    return run


def _volume_of(connection: Connection, source: StoredRun) -> Volume | None:
    """Return the volume that a run was on, None for its cluster's default run volume."""
    stack = source.settings.get("volume")
    if not stack:
        return None
    found = volumes.find_volume(connection, str(stack).removeprefix(VOLUME_PREFIX))
    if found is None:
        what = f"the checkpoint of {source.run_id} is on a volume that is gone, or none of here"
        raise bad_origin(what, "")
    return found


def _owner(volume: Volume) -> str:
    return wallet_id_of(volume.user_id, volume.team_id)
