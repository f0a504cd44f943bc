"""Opens the database of a URL, upgrades it, and gives out its transactions.

A transaction is short and holds no network call. On SQLite a writer takes the lock at its begin,
since a reader that turns into a writer fails at once where another one was faster.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from runtime import homes
from runtime.control.store import schema
from runtime.control.store.columns import insert, insert_new
from runtime.control.store.tables import facts
from runtime.errors import Problem, SettingsError, StoreError
from runtime.local_state import file_lock
from runtime.naming import new_run_id

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for SQLite's lock; a transaction takes milliseconds."""

_LIBPQ = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""How soon a connection whose packets vanish ends, in s (the last in ms): else a thread would hang
for a quarter of an hour. PostgreSQL manual, libpq, parameter key words."""

_SESSION = {
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "30s",
    "statement_timeout": "120s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""What Postgres ends by itself: a host that loses power inside a transaction keeps its row locks,
leases among them, for two hours of TCP's patience otherwise."""

POOL_SIZE = 40
"""As many as FastAPI's thread pool has threads, so that no request waits for a connection."""

MAX_OVERFLOW = 10
"""Connections beyond the pool, for the server's loops; docs/operations.md tells the sum."""

DATABASE_AWAY: tuple[type[SQLAlchemyError], ...] = (OperationalError, PoolTimeoutError)
"""What SQLAlchemy raises where the database does not answer, or no connection comes free."""

_WRITES = "paddock_writes"
_CONTROL_PLANE_ID = "control_plane_id"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """An open database; `control_plane_id` is that of all servers that share it."""

    engine: Engine
    control_plane_id: str
    _writer: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_shared(self) -> bool:
        """Tell whether several servers may work on this database."""
        return self.engine.dialect.name == "postgresql"

    @property
    def name(self) -> str:
        """Return the URL without its password, for messages."""
        return _shown(self.engine.url)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection for reading; the database refuses its writes."""
        options = {"postgresql_readonly": True} if self.is_shared else {}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection whose writes are kept when the block ends well, else undone."""
        with nullcontext() if self.is_shared else self._turn(), _writing(self.engine) as connection:
            yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        # threads of one process queue here: SQLite's own waiting is by sleeping, and not fair
        if not self._writer.acquire(timeout=BUSY_TIMEOUT_S):
            raise StoreError(f"{self.name}: somebody has been writing for {BUSY_TIMEOUT_S:.0f} s")
        try:
            yield
        finally:
            self._writer.release()

    def check(self) -> None:
        """Raise StoreError where the database does not answer; for /readyz."""
        try:
            with self.read() as connection:
                connection.execute(select(1))
        except OperationalError as error:
            raise _unreachable(self.engine.url, error.orig) from None

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def default_url() -> str:
    """Return the URL of the database in PADDOCK_HOME."""
    return f"sqlite:///{homes.make_home() / 'control.db'}"


def open_store(url: str) -> Store:
    """Open a database, make or upgrade its tables, and return it.

    Raises SettingsError for a URL of no database that is known, StoreError where it cannot be
    reached, or where a newer release made it. No message holds the URL's password.
    """
    parsed = read_url(url)
    engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)
    try:
        control_plane_id = _prepare(engine)
    except DatabaseError as error:
        raise _unreachable(parsed, error.orig) from None
    except sqlite3.DatabaseError as error:
        raise _unreachable(parsed, error) from None
    return Store(engine=engine, control_plane_id=control_plane_id)


def read_url(url: str) -> URL:
    """Return the parsed URL of a database, with the driver that paddock uses."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):  # its text holds the whole URL, password included
        raise _bad_url("is no database URL") from None
    if backend == "sqlite":
        if parsed.database in {None, "", ":memory:"}:
            raise _bad_url("names no file: a store in memory would lose every run")
        return parsed.set(drivername="sqlite")
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise _bad_url(f"is of {backend!r}")


def _bad_url(what: str) -> SettingsError:
    fix = "use sqlite:////path/of/file or postgresql://user@host/name"
    return SettingsError([Problem(loc=("database",), message=what, fix=fix)], source="database")


def _unreachable(url: URL, error: BaseException | None) -> StoreError:
    lines = str(error).strip().splitlines()
    return StoreError(f"{_shown(url)}: {lines[0] if lines else type(error).__name__}")


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _postgres(url: URL) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,  # an exception would print the values of a statement
        pool_size=POOL_SIZE,
        max_overflow=MAX_OVERFLOW,
        pool_pre_ping=True,
        connect_args={**_LIBPQ, "application_name": "paddock"},
    )
    event.listen(engine, "connect", _set_up_postgres)
    return engine


def _set_up_postgres(connection: "psycopg.Connection", record: object) -> None:
    # not by the startup parameter `options`, which a pooler such as pgbouncer refuses
    with connection.transaction(), connection.cursor() as cursor:
        for name, value in _SESSION.items():
            cursor.execute("SELECT set_config(%s, %s, false)", (name, value))


def _sqlite(url: URL) -> Engine:
    path = Path(url.database or "")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)  # SQLite gives its -wal and -shm files the same mode
        os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}: make the folder, or own the file") from None
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_size=POOL_SIZE,
        max_overflow=MAX_OVERFLOW,
        connect_args={"timeout": BUSY_TIMEOUT_S},
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # Python's driver would begin transactions of its own
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # a dispatch that was answered is on disk


def _begin_sqlite(connection: Connection) -> None:
    is_writing = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if is_writing else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


@contextmanager
def _writing(engine: Engine) -> Iterator[Connection]:
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def _prepare(engine: Engine) -> str:
    """Upgrade the database where it has to be, and return its control plane's id."""
    name = _shown(engine.url)
    if engine.dialect.name == "sqlite":
        _use_wal(Path(engine.url.database or ""))
    with engine.connect() as connection:
        is_current = schema.check_revision(connection, name)
    if not is_current:
        _log.info("upgrading %s to revision %s", name, schema.newest_revision())
        with _writing(engine) as connection:
            schema.upgrade(connection, name)
    with _writing(engine) as connection:
        made = insert(connection, facts).values(name=_CONTROL_PLANE_ID, value=new_run_id())
        insert_new(connection, made)
        found = select(facts.c.value).where(facts.c.name == _CONTROL_PLANE_ID)
        return connection.execute(found).scalar_one()


def _use_wal(path: Path) -> None:
    """Turn write-ahead logging on, which a database keeps; readers then never wait for a writer."""
    # no busy timeout covers this change: two processes at once would fail
    with file_lock(path.with_name(f"{path.name}.lock")):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
