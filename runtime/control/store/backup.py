"""Backup of a SQLite database while servers use it. Of a Postgres database `pg_dump` makes it.

`runtime.control.store.restore` puts a copy back; of Postgres `pg_restore --clean --if-exists` does.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from runtime.errors import StoreError


def back_up(url: URL, target: Path) -> None:
    """Copy the database into a file of mode 0600 that is replaced in one step.

    It is copied as it is, at whatever revision: an upgrade's way back is the copy made before it.
    Raises StoreError for Postgres, naming the command, and where it or its copy is damaged.
    """
    name = url.render_as_string(hide_password=True)
    if url.get_backend_name() != "sqlite":
        raise StoreError(
            f"{name}: Postgres makes its own backup: pg_dump --format=custom --file={target}"
        )
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    try:
        source = sqlite3.connect(url.database or "")
        copy = sqlite3.connect(temporary)
        with closing(source), closing(copy):
            source.backup(copy)
            found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            raise StoreError(f"the copy in {target} is damaged ({found}): check the disk")
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{name}: {error}: nothing was copied") from None
    finally:
        for left in (temporary, *temporary.parent.glob(f"{temporary.name}-*")):
            left.unlink(missing_ok=True)
