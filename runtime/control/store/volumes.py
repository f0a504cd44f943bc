"""Volumes that users made by the API: storage that outlives their runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select

from runtime.control.store.columns import insert, now
from runtime.control.store.tables import volumes
from runtime.control.values import Volume, VolumeStatus, wallet_id_of
from runtime.errors import ConflictError
from runtime.naming import new_run_id

_COLUMNS = [column for column in volumes.c if column is not volumes.c.owner]
_CHANGEABLE = {"size", "status", "reason", "claim_name"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVolume:
    """A volume to be made."""

    name: str
    user_id: str
    team_id: str | None = None
    size: str
    cluster: str
    claim_name: str


def add_volume(connection: Connection, new: NewVolume) -> Volume:
    """Store a volume that is PENDING; raises ConflictError when its owner has one of that name."""
    row = insert(connection, volumes).values(
        volume_id=new_run_id(),
        name=new.name,
        owner=wallet_id_of(new.user_id, new.team_id),
        user_id=new.user_id,
        team_id=new.team_id,
        size=new.size,
        cluster=new.cluster,
        claim_name=new.claim_name,
        status=VolumeStatus.PENDING,
        reason="",
        created_at=now(),
    )
    made = connection.execute(row.on_conflict_do_nothing().returning(*_COLUMNS)).mappings().first()
    if made is None:
        raise ConflictError(f"there is a volume {new.name}: choose another name, or expand it")
    return Volume(**made)


def get_volume(
    connection: Connection, name: str, *, user_id: str, team_id: str | None = None
) -> Volume | None:
    """Return the volume of a name: the team's where one is given, else the user's own."""
    query = select(*_COLUMNS).where(_is_owned(user_id, team_id), volumes.c.name == name)
    row = connection.execute(query).mappings().first()
    return Volume(**row) if row else None


def find_volume(connection: Connection, volume_id: str, *, locks: bool = False) -> Volume | None:
    """Return a volume by its id, whosever it is.

    `locks`: nobody else changes it to the end of the transaction.
    """
    query = select(*_COLUMNS).where(volumes.c.volume_id == volume_id)
    if locks:
        query = query.with_for_update()
    row = connection.execute(query).mappings().first()
    return Volume(**row) if row else None


def names_of(connection: Connection, volume_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of volumes by id; one that is gone has none."""
    query = select(volumes.c.volume_id, volumes.c.name)
    rows = connection.execute(query.where(volumes.c.volume_id.in_(list(volume_ids))))
    return {row.volume_id: row.name for row in rows}


def list_volumes(
    connection: Connection, *, user_id: str, team_id: str | None = None
) -> list[Volume]:
    """Return the volumes of a team where one is given, else the user's own, the oldest first."""
    query = select(*_COLUMNS).where(_is_owned(user_id, team_id))
    rows = connection.execute(query.order_by(volumes.c.created_at, volumes.c.volume_id)).mappings()
    return [Volume(**row) for row in rows]


def unsettled_volumes(connection: Connection) -> list[Volume]:
    """Return the volumes of all users that are being made or removed, for the reconciler."""
    is_it = volumes.c.status.in_([VolumeStatus.PENDING, VolumeStatus.TERMINATING])
    rows = connection.execute(select(*_COLUMNS).where(is_it).order_by(volumes.c.created_at))
    return [Volume(**row) for row in rows.mappings()]


def change_volume(connection: Connection, volume_id: str, **changes: object) -> Volume | None:
    """Change fields of a volume and return it, None where it is gone."""
    unknown = changes.keys() - _CHANGEABLE
    assert not unknown, f"no fields to change: {sorted(unknown)}"
    changed = volumes.update().where(volumes.c.volume_id == volume_id).values(**changes)
    row = connection.execute(changed.returning(*_COLUMNS)).mappings().first()
    return Volume(**row) if row else None


def remove_volume(connection: Connection, volume_id: str) -> None:
    """Forget a volume whose storage is gone; its name is free again."""
    connection.execute(volumes.delete().where(volumes.c.volume_id == volume_id))


def _is_owned(user_id: str, team_id: str | None) -> ColumnElement[bool]:
    return volumes.c.owner == wallet_id_of(user_id, team_id)
