"""Leases: who may work on what, until when, by the clock of the database.

A token grows with every acquisition. Who writes under a lease names it (`is_held`, `require`), so
that a holder who slept past its end and was replaced can write nothing more.
"""

from sqlalchemy import BigInteger, ColumnElement, Connection, select, type_coerce

from runtime.control.operations import LOST_LEASE
from runtime.control.store.columns import EPOCH, insert, later, now
from runtime.control.store.tables import leases
from runtime.control.values import Lease
from runtime.errors import StoreError


class LostLeaseError(StoreError):
    """Somebody else holds the lease by now; what was begun under it must be left alone."""

    code = LOST_LEASE


def acquire(connection: Connection, name: str, holder: str, ttl_s: float) -> Lease | None:
    """Take a lease that is free or over, None where somebody holds it, the same holder included."""
    row = insert(connection, leases).values(
        name=name, holder=holder, token=1, expires_at=_as_time(later(ttl_s))
    )
    taken = row.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={
            "holder": holder,
            "token": leases.c.token + 1,
            "expires_at": _as_time(later(ttl_s)),
        },
        where=leases.c.expires_at <= now(),
    ).returning(leases.c.token)
    token = connection.execute(taken).scalar_one_or_none()
    return None if token is None else Lease(name=name, holder=holder, token=token)


def renew(connection: Connection, lease: Lease, ttl_s: float) -> bool:
    """Prolong a lease from now on; False where somebody else has taken it.

    One that is over but that nobody took is renewed: no other holder worked in between.
    """
    changed = leases.update().where(_is(lease)).values(expires_at=_as_time(later(ttl_s)))
    return connection.execute(changed).rowcount > 0


def release(connection: Connection, lease: Lease) -> None:
    """Let go of a lease; the row stays, so that tokens go on growing."""
    changed = leases.update().where(_is(lease)).values(holder="", expires_at=EPOCH)
    connection.execute(changed)


def release_all(connection: Connection) -> None:
    """Let go of everybody's leases, for a server that knows that no other one lives."""
    connection.execute(leases.update().values(holder="", expires_at=EPOCH))


def is_held(connection: Connection, lease: Lease) -> bool:
    """Tell whether nobody else took the lease, and keep it so to the end of the transaction."""
    # Postgres: FOR SHARE makes an acquisition wait; SQLite: a writer is alone
    query = select(leases.c.token).where(_is(lease)).with_for_update(read=True)
    return connection.execute(query).first() is not None


def require(connection: Connection, lease: Lease) -> None:
    """Raise LostLeaseError where somebody else took the lease; ends the transaction's writes."""
    if not is_held(connection, lease):
        raise LostLeaseError(f"the lease {lease.name} of {lease.holder} has gone to somebody else")


def list_held(connection: Connection) -> list[Lease]:
    """Return the leases that are not over."""
    query = select(leases.c.name, leases.c.holder, leases.c.token)
    query = query.where(leases.c.expires_at > now()).order_by(leases.c.name)
    return [Lease(**row) for row in connection.execute(query).mappings()]


def _is(lease: Lease) -> ColumnElement[bool]:
    return (
        (leases.c.name == lease.name)
        & (leases.c.token == lease.token)
        & (leases.c.holder == lease.holder)
    )


def _as_time(microseconds: ColumnElement[int]) -> ColumnElement[int]:
    return type_coerce(microseconds, BigInteger)
