"""Settings files of stacks in the store, from where any server of any host restores them.

A database that is away for a moment costs an operation that waits for it nothing.
"""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from runtime.control.projects import RunFolder
from runtime.control.store import stack_files
from runtime.control.store.store import DATABASE_AWAY, Store
from runtime.errors import PaddockError

PATIENCE_S = 60.0
"""How long an operation waits for its database: longer than a failover of Postgres takes."""

_RETRY_S = 1.0
_AWAY = (*DATABASE_AWAY, InterfaceError)
_LOG = logging.getLogger(__name__)


def until_answered(act: Callable[[], None], is_over: threading.Event) -> None:
    """Do something on the database, again and again while it is away.

    Raises its error after PATIENCE_S, and once the event is set.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except _AWAY:
            if time.monotonic() > deadline or is_over.wait(_RETRY_S):
                raise


class KeptSettings:
    """Puts the settings files of runs' folders into the store, and back."""

    def __init__(self, store: Store) -> None:
        """Keep them here."""
        self._store = store

    def exchange(self, folder: RunFolder) -> None:
        """Store what an earlier operation left here, else take what another server stored."""
        found = folder.read()
        if found is not None and not _is_kept(folder, found.report.operation_id):
            self.keep(folder, found.report.operation_id)
            return
        with self._store.read() as connection:
            text = stack_files.get_file(connection, folder.run_id)
        if text is not None:
            folder.restore_settings(text)

    def keep(
        self, folder: RunFolder, operation_id: str, is_over: threading.Event | None = None
    ) -> None:
        """Store the file that an operation left, waiting for the database where an event is given.

        Where it cannot be stored the log says so, and the run's next operation here tries again:
        how the operation ended does not depend on it.
        """
        if _is_kept(folder, operation_id) or not folder.settings.exists():
            return

        def put() -> None:
            with self._store.write() as connection:
                stack_files.put_file(connection, folder.run_id, folder.settings.read_text())

        try:
            put() if is_over is None else until_answered(put, is_over)
        except (PaddockError, DBAPIError, PoolTimeoutError) as error:
            run_id = folder.run_id
            said = "run %s: its settings were not stored: %s"
            _LOG.error(said, run_id, error, extra={"run": run_id})
            return
        folder.kept.write_text(operation_id)

    def remove(self, folder: RunFolder) -> None:
        """Forget the file of a stack that is removed."""
        with self._store.write() as connection:
            stack_files.remove_file(connection, folder.run_id)


def _is_kept(folder: RunFolder, operation_id: str) -> bool:
    return folder.kept.exists() and folder.kept.read_text() == operation_id
