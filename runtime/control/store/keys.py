"""API keys: a token is shown once, the database keeps its digest.

A plain SHA-256 is enough, since a token is 256 random bits and no word that could be guessed.
"""

import hashlib
import secrets

from sqlalchemy import Connection, select

from runtime.control.store.columns import insert, now, read_clock
from runtime.control.store.tables import api_keys
from runtime.control.values import ApiKey

_SCHEME = "pdk_"
_PREFIX_CHARS = 12
_COLUMNS = [column for column in api_keys.c if column is not api_keys.c.digest]


def add_key(
    connection: Connection, *, user_id: str, name: str, team_id: str | None = None
) -> tuple[ApiKey, str]:
    """Make a key of a user and return it with its token, which nobody can read again."""
    token = _SCHEME + secrets.token_urlsafe(32)
    key = ApiKey(
        key_id=secrets.token_hex(8),
        user_id=user_id,
        team_id=team_id,
        name=name,
        prefix=token[:_PREFIX_CHARS],
        created_at=read_clock(connection),
    )
    row = insert(connection, api_keys).values(
        key_id=key.key_id,
        digest=_digest(token),
        prefix=key.prefix,
        name=key.name,
        user_id=key.user_id,
        team_id=key.team_id,
        created_at=key.created_at,
    )
    connection.execute(row)
    return key, token


def find_key(connection: Connection, token: str) -> ApiKey | None:
    """Return the key of a token, None for one that is unknown or revoked."""
    is_it = (api_keys.c.digest == _digest(token)) & api_keys.c.revoked_at.is_(None)
    row = connection.execute(select(*_COLUMNS).where(is_it)).mappings().first()
    return ApiKey(**row) if row else None


def list_keys(connection: Connection, user_id: str | None = None) -> list[ApiKey]:
    """Return all keys, or those of one user, revoked ones included, the oldest first."""
    query = select(*_COLUMNS).order_by(api_keys.c.created_at, api_keys.c.key_id)
    if user_id is not None:
        query = query.where(api_keys.c.user_id == user_id)
    return [ApiKey(**row) for row in connection.execute(query).mappings()]


def revoke_key(connection: Connection, key_id: str) -> bool:
    """Revoke a key for good; False where there is none, or it was revoked before."""
    is_it = (api_keys.c.key_id == key_id) & api_keys.c.revoked_at.is_(None)
    changed = api_keys.update().where(is_it).values(revoked_at=now())
    return connection.execute(changed).rowcount > 0


def revoke_team_keys(connection: Connection, *, user_id: str, team_id: str) -> int:
    """Revoke a user's keys that act for a team; return how many were valid."""
    is_it = (api_keys.c.user_id == user_id) & (api_keys.c.team_id == team_id)
    changed = api_keys.update().where(is_it & api_keys.c.revoked_at.is_(None))
    return connection.execute(changed.values(revoked_at=now())).rowcount


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
