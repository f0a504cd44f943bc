"""Migrations: they make what the tables say, once, and never touch a newer database."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, LargeBinary, MetaData, Table, create_engine, inspect, text

from runtime.control.store import schema
from runtime.control.store.store import Store, open_store, read_url
from runtime.control.store.tables import metadata, runs
from runtime.errors import StoreError
from tests.runtime.control.store.rows import add_run, add_user

ROOT = Path(__file__).parents[4]
OPENER = """
import sys
from runtime.control.store.store import open_store
print("ready", flush=True)
print(open_store(sys.stdin.readline().strip()).control_plane_id)
"""


def test_the_migrations_make_what_the_tables_say(store: Store) -> None:
    with store.read() as tx:
        context = MigrationContext.configure(tx, opts={"compare_type": True})

        assert compare_metadata(context, metadata) == []


def test_the_indexes_and_names_are_those_of_the_tables(store: Store) -> None:
    reflected = MetaData()
    with store.read() as tx:
        reflected.reflect(tx)
        revision = schema.current_revision(tx)

    made = {table.name: shape(table) for table in reflected.tables.values()}
    del made["alembic_version"]
    assert made == {table.name: shape(table) for table in metadata.tables.values()}
    assert revision == schema.newest_revision()


def shape(table: Table) -> tuple[object, ...]:
    columns = {(column.name, column.nullable) for column in table.columns}
    indexes = {(index.name, tuple(index.columns.keys())) for index in table.indexes}
    foreign = {key.target_fullname for key in table.foreign_keys}
    return columns, indexes, foreign


@pytest.mark.control
def test_an_empty_database_is_made_by_one_of_many_processes(
    new_url: str, opened: Callable[[str], Store]
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{new_url}\n")
        process.stdin.flush()
    control_plane_id = opened(new_url).control_plane_id
    outputs = [process.communicate(timeout=120)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs
    assert {output.strip() for output in outputs} == {control_plane_id}


def test_a_database_keeps_what_it_has_when_it_is_opened_again(
    store: Store, store_url: str, opened: Callable[[str], Store]
) -> None:
    run = add_run(store, add_user(store))
    store.close()

    again = opened(store_url)

    assert again.control_plane_id == store.control_plane_id
    with again.read() as tx:
        assert tx.execute(runs.select()).mappings().one()["run_id"] == run.run_id


def test_a_newer_database_is_left_alone(store: Store, store_url: str) -> None:
    with store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(StoreError, match=r"9999.*newer release") as refused:
        open_store(store_url)

    assert schema.newest_revision() in str(refused.value)
    with store.read() as tx:
        assert schema.current_revision(tx) == "9999"


def test_a_database_of_something_else_is_left_alone(new_url: str) -> None:
    engine = create_engine(read_url(new_url))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (id INTEGER)"))
    engine.dispose()

    with pytest.raises(StoreError, match=r"tables that paddock did not make \(runs\)"):
        open_store(new_url)


def test_an_upgrade_that_fails_halfway_leaves_nothing(
    new_url: str, monkeypatch: pytest.MonkeyPatch, opened: Callable[[str], Store]
) -> None:
    upgrade = schema.upgrade
    seen: list[list[str]] = []

    def killed(connection: Connection, database: str) -> None:
        upgrade(connection, database)
        seen.append(inspect(connection).get_table_names())
        raise RuntimeError("killed")

    monkeypatch.setattr(schema, "upgrade", killed)
    with pytest.raises(RuntimeError, match="killed"):
        open_store(new_url)
    monkeypatch.setattr(schema, "upgrade", upgrade)

    assert "runs" in seen[0]
    store = opened(new_url)
    with store.read() as tx:
        assert schema.current_revision(tx) == schema.newest_revision()


def test_no_column_is_for_a_secret() -> None:
    columns = [column for table in metadata.tables.values() for column in table.columns]
    words = ("token_value", "secret_value", "password", "api_key")

    assert not [str(column) for column in columns if any(word in column.name for word in words)]
    assert not [str(column) for column in columns if isinstance(column.type, LargeBinary)]
