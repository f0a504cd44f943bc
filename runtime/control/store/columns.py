"""The column types and SQL that give equal values on SQLite and Postgres.

A time is an integer of microseconds since the epoch, JSON is text, and the clock is the database's
own, since the clocks of several replicas differ.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Table,
    Text,
    TypeDecorator,
    literal,
    select,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

E = TypeVar("E", bound=StrEnum)


class Time(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since the epoch and given back in UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return the integer that is stored."""
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time that was stored."""
        return None if value is None else EPOCH + value * MICROSECOND


class SafeText(TypeDecorator[str]):
    """Text that both databases take: no NUL, which Postgres refuses, and no half of a surrogate.

    Either becomes U+FFFD. So a log line with a NUL can be a reason, and an id with one is found
    nowhere, instead of failing the statement.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text that is stored."""
        return None if value is None else _UNSTORABLE.sub("\ufffd", value)


class Json(TypeDecorator[Any]):  # Any: a JSON value of whatever shape its column has
    """A JSON value as text; key order is kept, so that it is given back as it was."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        """Return the text that is stored."""
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:
        """Return the value that was stored."""
        return None if value is None else json.loads(value)


class Word(TypeDecorator[E]):
    """A member of a StrEnum, kept as its text, so that a new member needs no migration."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[E]) -> None:
        """Keep the vocabulary."""
        super().__init__()
        self.words = words

    def process_bind_param(self, value: E | None, dialect: Dialect) -> str | None:
        """Return the text that is stored; a text that is no member raises ValueError."""
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        """Return the member that was stored."""
        return None if value is None else self.words(value)


class DatabaseClock(FunctionElement[datetime]):
    """Now, by the clock of the database, not of the transaction's begin."""

    type = Time()
    inherit_cache = True


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: DatabaseClock, compiler: SQLCompiler, **options: object) -> str:
    # 2440587.5 is the Julian day of the epoch; SQLite's clock counts milliseconds
    return "(CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"


@compiles(DatabaseClock, "postgresql")
def _postgres_clock(element: DatabaseClock, compiler: SQLCompiler, **options: object) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


def now() -> DatabaseClock:
    """Return the SQL for the database's clock."""
    return DatabaseClock()


def later(seconds: float) -> ColumnElement[int]:
    """Return the SQL for so many seconds after now, in microseconds."""
    return type_coerce(now(), BigInteger) + round(seconds * 1_000_000)


def read_clock(connection: Connection) -> datetime:
    """Return the time of the database's clock."""
    return connection.execute(select(now())).scalar_one()


def insert(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return an INSERT that knows ON CONFLICT and RETURNING, which both databases spell alike."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_new(connection: Connection, row: "postgresql.Insert | sqlite.Insert") -> bool:
    """Insert a row and tell whether it was: one of whose keys any is taken changes nothing."""
    # not by rowcount: where the database makes a key, SQLAlchemy asks for it back and has no count
    made = row.on_conflict_do_nothing().returning(literal(1))
    return connection.execute(made).first() is not None
