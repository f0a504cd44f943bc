"""Volumes of users: a row of the store and a volume stack each; `services.Volumes` and its loop.

A request writes what is wanted; the loop of one server brings the stacks there. A claim is named as
its stack, a folder of the local target lies under PADDOCK_HOME/volumes.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import yaml
from pydantic import JsonValue
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from runtime import homes, naming
from runtime.cluster import ClusterProfile
from runtime.control.dispatcher import volume_stack
from runtime.control.lease_keeper import TTL_S
from runtime.control.operations import Operation, OperationBusyError, Operator
from runtime.control.places import Clusters
from runtime.control.requests import CreateVolume
from runtime.control.store import leases, run_lists, stack_files, volumes
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun, User, Volume, VolumeStatus
from runtime.control.volume_steps import Forget, Perform, Settle, Wait, next_volume_step
from runtime.errors import NotFoundError, Problem, RunStateError, SettingsError, StoreError
from runtime.kubernetes_nodes import quantity

LOOK_S = 1.0
AGAIN_S = 30.0
"""How long an operation that failed is left alone before it is tried again."""

_LEASE = "volumes"
_NUM_TOLD = 3
_MAX_SIZE = 2.0**63
"""Kubernetes counts bytes in 64 bits."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class StackVolumes:
    """Writes what users want of volumes."""

    store: Store
    clusters: Clusters

    def page(self, user: User, team_id: str | None) -> tuple[Volume, ...]:
        """Return all volumes of the user or the team."""
        with self.store.read() as tx:
            return tuple(volumes.list_volumes(tx, user_id=user.user_id, team_id=team_id))

    def create(self, user: User, request: CreateVolume) -> Volume:
        """Make one; ConflictError where the name is taken."""
        _check_size(request.size)
        cluster = self._cluster(request.cluster)
        new = volumes.NewVolume(
            name=request.name,
            user_id=user.user_id,
            team_id=request.team_id,
            size=request.size,
            cluster=cluster,
            claim_name="",
        )
        is_local = self.clusters.profiles()[cluster].target == "local"
        with self.store.write() as tx:
            made = volumes.add_volume(tx, new)
            stack = volume_stack(made)
            claim = str(homes.home_path() / "volumes" / stack) if is_local else stack
            changed = volumes.change_volume(tx, made.volume_id, claim_name=claim)
        assert changed is not None, "it was made in this transaction"
        return changed

    def expand(self, user: User, name: str, *, size: str, team_id: str | None) -> Volume:
        """Make one larger."""
        _check_size(size)
        with self.store.write() as tx:
            found = _owned(tx, user, name, team_id)
            if found.status is VolumeStatus.TERMINATING:
                raise RunStateError(f"volume {name} is being deleted")
            if quantity(size) < quantity(found.size):
                raise _wrong("size", f"{size} is less than {found.size}: a volume only grows")
            changed = volumes.change_volume(
                tx, found.volume_id, size=size, status=VolumeStatus.PENDING, reason=""
            )
        assert changed is not None, "it was found in this transaction"
        return changed

    def delete(self, user: User, name: str, *, team_id: str | None) -> None:
        """Delete one with all that is on it.

        Raises RunStateError while a run uses it, or is over and not captured whole.
        """
        with self.store.write() as tx:
            found = _owned(tx, user, name, team_id)
            volumes.find_volume(tx, found.volume_id, locks=True)  # as a dispatch onto it does
            _refuse_in_use(name, _runs_on(volume_stack(found), run_lists.live_runs(tx)))
            _refuse_loss(name, _runs_on(volume_stack(found), run_lists.uncaptured_runs(tx)))
            volumes.change_volume(tx, found.volume_id, status=VolumeStatus.TERMINATING, reason="")

    def _cluster(self, asked: str | None) -> str:
        profiles = self.clusters.profiles()
        if asked is None and not profiles:
            raise _wrong("cluster", "no cluster is up here")
        if asked is None:
            return min(profiles.values(), key=_likelier_first).name
        if asked not in profiles:
            known = ", ".join(sorted(profiles))
            raise _wrong("cluster", f"there is no cluster {asked}; there is {known}")
        return asked


@dataclass(kw_only=True, slots=True)
class VolumeLoop:
    """Brings volumes to where they are wanted, on one server at a time."""

    store: Store
    operator: Operator
    holder: str
    _lease: Lease | None = None
    _due: dict[str, float] = field(default_factory=dict)
    _settled_by: dict[str, str] = field(default_factory=dict)
    """The operation after which a volume was settled last: a later wish is not judged by it."""

    def run(self, is_over: threading.Event) -> None:
        """Go on until the end; what fails is tried again."""
        while not is_over.wait(LOOK_S):
            try:
                if self._holds():
                    self.make_pass()
            except Exception:  # a loop that must go on: the database may be away for a while
                _LOG.exception("the volumes could not be looked after")
        if self._lease is not None:
            with contextlib.suppress(StoreError, DBAPIError), self.store.write() as tx:
                leases.release(tx, self._lease)

    def make_pass(self) -> None:
        """Take the next step of each volume that is not settled."""
        with self.store.read() as tx:
            unsettled = volumes.unsettled_volumes(tx)
            sizes = {one.volume_id: _stored_size(tx, volume_stack(one)) for one in unsettled}
        for volume in unsettled:
            self._step(volume, sizes[volume.volume_id])

    def _step(self, volume: Volume, stored_size: str | None) -> None:
        stack = volume_stack(volume)
        report = self.operator.state(stack)
        if report is not None and report.operation_id == self._settled_by.get(volume.volume_id):
            report = None
        step = next_volume_step(volume, report, stored_size)
        match step:
            case Wait():
                return
            case Settle():
                size = {"size": step.size} if step.size is not None else {}
                self._write(volume, status=step.status, reason=step.reason, **size)
                if report is not None:
                    self._settled_by[volume.volume_id] = report.operation_id
            case Forget():
                with self.store.write() as tx:
                    volumes.remove_volume(tx, volume.volume_id)
                self._settled_by.pop(volume.volume_id, None)
            case Perform():
                self._perform(volume, step)

    def _perform(self, volume: Volume, step: Perform) -> None:
        if step.is_again:
            if volume.reason != step.reason:
                self._write(volume, reason=step.reason)
            due = self._due.setdefault(volume.volume_id, time.monotonic() + AGAIN_S)
            if time.monotonic() < due:
                return
        self._due.pop(volume.volume_id, None)
        operation = Operation(
            operation_id=naming.new_run_id(),
            kind=step.kind,
            run_id=volume_stack(volume),
            attempt=1,
            cluster=volume.cluster,
            lease=self._lease,
            settings=_settings(volume),
        )
        try:
            self.operator.start(operation)
        except OperationBusyError as error:
            _LOG.info("volume %s: %s", volume.name, error)

    def _write(self, volume: Volume, **changes: object) -> None:
        with self.store.write() as tx:
            found = volumes.find_volume(tx, volume.volume_id)
            if found == volume:  # else somebody has changed the wish, and the next pass sees it
                volumes.change_volume(tx, volume.volume_id, **changes)

    def _holds(self) -> bool:
        with self.store.write() as tx:
            if self._lease is None or not leases.renew(tx, self._lease, TTL_S):
                self._lease = leases.acquire(tx, _LEASE, self.holder, TTL_S)
        return self._lease is not None


def _likelier_first(profile: ClusterProfile) -> tuple[bool, int, str]:
    """Order clusters by how likely the runs of a volume fit, since they are bound to its cluster.

    A client that makes a volume while it dispatches can name none.
    """
    num_gpus = sum(offer.num_gpus for offer in profile.gpus)
    return profile.target == "local", -num_gpus, profile.name


def _settings(volume: Volume) -> Mapping[str, JsonValue]:
    settings: dict[str, JsonValue] = {
        "kind": "volume",
        "cluster": volume.cluster,
        "size": volume.size,
    }
    if volume.claim_name.startswith("/"):
        settings["path"] = volume.claim_name
    return settings


def _stored_size(connection: Connection, stack: str) -> str | None:
    text = stack_files.get_file(connection, stack)
    if text is None:
        return None
    return str(yaml.safe_load(text)["config"].get(f"{naming.PROJECT}:size", ""))


def _runs_on(stack: str, runs: Iterable[StoredRun]) -> list[StoredRun]:
    return [run for run in runs if run.settings.get("volume") == stack]


def _refuse_in_use(name: str, runs: list[StoredRun]) -> None:
    going = [run for run in runs if not run.is_over]
    if going:
        raise RunStateError(f"volume {name} is used by {_ids(going)}: end it first")
    if runs:
        what = "is over, and not yet captured and torn down"
        raise RunStateError(f"volume {name} is used by {_ids(runs)}, which {what}: wait for that")


def _refuse_loss(name: str, runs: list[StoredRun]) -> None:
    """Refuse while the volume alone has the files of runs; one that its user deletes counts not."""
    if runs:
        raise RunStateError(
            f"volume {name} has the only files of {_ids(runs)}, whose capture is not complete: "
            "copy what you want to keep, give each of them up with `train delete RUN`, and delete "
            "the volume then"
        )


def _ids(runs: list[StoredRun]) -> str:
    """Return the ids of runs; of many, the first and how many more."""
    more = f" and {len(runs) - _NUM_TOLD} more" if len(runs) > _NUM_TOLD else ""
    return ", ".join(run.run_id for run in runs[:_NUM_TOLD]) + more


def _owned(connection: Connection, user: User, name: str, team_id: str | None) -> Volume:
    found = volumes.get_volume(connection, name, user_id=user.user_id, team_id=team_id)
    if found is None:
        raise NotFoundError("Volume not found")
    return found


def _check_size(size: str) -> None:
    if not 1 <= quantity(size) < _MAX_SIZE:
        raise _wrong("size", f"{size[:32]!r} is no size: for example 500Gi or 5Ti")


def _wrong(name: str, message: str) -> SettingsError:
    return SettingsError([Problem(loc=(name,), message=message)], source="volume")
