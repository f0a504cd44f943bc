"""Idempotency keys: a request that is sent twice makes one run."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from runtime.control.store.columns import insert, insert_new, now
from runtime.control.store.tables import idempotency_keys
from runtime.errors import ConflictError


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestKey:
    """The Idempotency-Key of a user's request, and the digest of its body."""

    user_id: str
    key: str
    digest: str


def find_run_id(connection: Connection, request: RequestKey) -> str | None:
    """Return the run that an earlier request of the same key made, None for the first one.

    Raises ConflictError when the key came with another body.
    """
    query = select(idempotency_keys.c.digest, idempotency_keys.c.run_id).where(
        idempotency_keys.c.user_id == request.user_id, idempotency_keys.c.key == request.key
    )
    found = connection.execute(query).first()
    if found is None:
        return None
    if found.digest != request.digest:
        raise ConflictError(
            f"the Idempotency-Key was used for another request, which made run {found.run_id}: "
            "choose a new key"
        )
    return found.run_id


def claim_key(connection: Connection, request: RequestKey, run_id: str) -> str:
    """Return the run of a request: `run_id` for the first of its key, else that of the first.

    The caller inserts the run in the same transaction where it gets its own id back. Raises
    ConflictError when the key came with another body before.
    """
    row = insert(connection, idempotency_keys).values(
        user_id=request.user_id,
        key=request.key,
        digest=request.digest,
        run_id=run_id,
        created_at=now(),
    )
    # on Postgres this waits for the transaction that is just claiming the same key
    if insert_new(connection, row):
        return run_id
    first_run_id = find_run_id(connection, request)
    assert first_run_id is not None, "a key that cannot be inserted is there"
    return first_run_id


def free_key(connection: Connection, request: RequestKey) -> None:
    """Let a request that came to nothing be sent again under its key."""
    connection.execute(
        idempotency_keys.delete().where(
            idempotency_keys.c.user_id == request.user_id, idempotency_keys.c.key == request.key
        )
    )
