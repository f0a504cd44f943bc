"""A fresh store for each test: a SQLite file, and a database of a real Postgres.

The tests on SQLite are unit tests; those on Postgres carry the marker `control`.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from runtime.control.store import schema
from runtime.control.store.store import Store, open_store
from runtime.control.store.tables import metadata
from tests.runtime.control.postgres import made_database, running_postgres

if TYPE_CHECKING:
    from tests.runtime.control.api.server import ApiServer, Person

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.control)]
SHARED = "paddock_shared"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Run a Postgres server; a database's name completes the URL."""
    with running_postgres() as url:
        open_store(f"{url}/{made_database(url, SHARED)}").close()
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database that is copied, since to upgrade takes longer."""
    path = tmp_path_factory.mktemp("template") / "control.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=BOTH)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database in which nothing has been made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'control.db'}"
    url = request.getfixturevalue("postgres_url")
    return f"{url}/{made_database(url, f'test_{secrets.token_hex(6)}')}"


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """Return the URL of a SQLite database of the newest schema."""
    path = tmp_path / "control.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=BOTH)
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database of the newest schema."""
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    url = request.getfixturevalue("postgres_url")
    empty_database(f"{url}/{SHARED}")
    return f"{url}/{SHARED}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """Open a store, on both databases."""
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[Store]:
    """Open a store on SQLite, for tests of what lies above the store."""
    opened = open_store(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def ada(server: "ApiServer") -> "Person":
    """Return a user of the server of a folder's own tests."""
    return server.person("ada")


@pytest.fixture
def bob(server: "ApiServer") -> "Person":
    """Return another user, who knows nothing of the first one."""
    return server.person("bob")


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Open further stores, and close them at the end."""
    stores: list[Store] = []

    def open_one(url: str) -> Store:
        stores.append(open_store(url))
        return stores[-1]

    yield open_one
    for each in stores:
        each.close()


def empty_database(url: str) -> None:
    """Remove every row that a test left: a copy of a database for each test fills the disk."""
    with psycopg.connect(url) as connection:
        connection.execute("SET lock_timeout = '60s'")
        connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
        for table in metadata.tables.keys() - {"facts"}:
            connection.execute(f"DELETE FROM {table}")
        connection.execute(
            "UPDATE alembic_version SET version_num = %s", [schema.newest_revision()]
        )
