"""Puts a backup of `runtime.control.store.backup` in the place of a SQLite database.

The backup is checked, and upgraded where an older release made it, beside the database; then it
takes the database's name in one step. What was there keeps a name of its own. No server may work on
the database meanwhile: that is the caller's to see to.
"""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from runtime.control.store.store import open_store
from runtime.control.store.tables import runs
from runtime.errors import NotFoundError, StoreError


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What was restored, and where that is now which was there before."""

    num_runs: int
    replaced: Path | None


def restore(backup: Path, database: Path) -> Restored:
    """Put a backup in the place of a database, which may be missing.

    Raises NotFoundError and StoreError, with the database as it was.
    """
    _check(backup)
    temporary = database.with_name(f".{database.name}.restore-{os.getpid()}")
    try:
        num_runs = _prepare(backup, temporary)
        replaced = _keep(database) if database.exists() else None
        temporary.replace(database)
        _sync(database.parent)
        return Restored(num_runs=num_runs, replaced=replaced)
    finally:
        for left in (temporary, *temporary.parent.glob(f"{temporary.name}[-.]*")):
            left.unlink(missing_ok=True)


def _check(backup: Path) -> None:
    """Raise an error for a file that is no sound database of paddock's."""
    if not backup.is_file():
        raise NotFoundError(f"no file {backup}")
    try:
        with closing(_open(backup)) as opened:
            found = opened.execute("PRAGMA integrity_check").fetchone()[0]
            named = opened.execute(
                "SELECT count(*) FROM sqlite_master WHERE name IN ('alembic_version', 'facts')"
            )
            is_ours = named.fetchone()[0] == 2
    except sqlite3.Error as error:
        raise StoreError(f"{backup} is no backup: {error}") from None
    if found != "ok":
        raise StoreError(f"{backup} is damaged ({found}): take an earlier one")
    if not is_ours:
        raise StoreError(f"{backup} is a database, but none of paddock's")


def _open(backup: Path) -> sqlite3.Connection:
    """Open a backup for reading; its folder may be read-only, and nothing is left beside it."""
    has_log = backup.with_name(f"{backup.name}-wal").exists()
    how = "mode=ro" if has_log else "immutable=1"
    return sqlite3.connect(f"{backup.absolute().as_uri()}?{how}", uri=True)


def _prepare(backup: Path, temporary: Path) -> int:
    """Copy a backup, bring the copy to the newest revision, and return how many runs it has."""
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    with (
        closing(_open(backup)) as source,
        closing(sqlite3.connect(temporary)) as copy,
    ):
        source.backup(copy)
    try:
        store = open_store(f"sqlite:///{temporary}")
    except StoreError as error:
        raise StoreError(str(error).replace(str(temporary), str(backup))) from None
    try:
        with store.read() as connection:
            return connection.execute(select(func.count()).select_from(runs)).scalar_one()
    finally:
        store.close()  # the last connection writes the log into the file
        with temporary.open("rb") as file:
            os.fsync(file.fileno())


def _keep(database: Path) -> Path:
    """Give the database that is there a second name, once all of it is in its one file."""
    log = database.with_name(f"{database.name}-wal")
    try:
        with closing(sqlite3.connect(database, timeout=5)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise StoreError(
            f"{database} cannot be read ({error}): move it away, with the files whose names begin "
            "with its own, and restore again"
        ) from None
    if log.exists():  # read by SQLite as the log of whatever file has the database's name
        raise StoreError(f"somebody has {database} open: end every command that uses it")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    kept = database.with_name(f"{database.name}.replaced-{stamp}")
    os.link(database, kept)
    return kept


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
