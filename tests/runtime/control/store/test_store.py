"""Opening a database: URLs, what messages show, SQLite's settings and file modes, many threads."""

import logging
import stat
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from runtime.control.store import runs
from runtime.control.store.store import Store, default_url, open_store, read_url
from runtime.control.store.tables import users as users_table
from runtime.errors import SettingsError, StoreError
from runtime.run_record import ExitDetails
from tests.runtime.control.store.rows import add_run, add_user

CANARY = "hunter2-canary"


def test_a_url_names_a_file_or_a_postgres() -> None:
    assert read_url("sqlite:///control.db").drivername == "sqlite"
    for url in ("postgres://me@host/name", "postgresql+asyncpg://me@host/name"):
        assert read_url(url).drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        (f"mysql://me:{CANARY}@host/name", "'mysql'"),
        (f"no url {CANARY}", "is no database URL"),
        (f"postgresql://me:{CANARY}@host:port/name", "is no database URL"),
        ("", "is no database URL"),
    ],
)
def test_another_url_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        open_store(url)

    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None


def test_the_default_is_a_private_file_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))

    store = open_store(default_url())
    add_user(store)
    files = sorted((tmp_path / "home").iterdir())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}
    store.close()

    assert set(modes.values()) == {0o600}
    assert {"control.db", "control.db-wal"} <= modes.keys()
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_file_that_all_could_read_is_made_private(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.chmod(0o644)

    open_store(sqlite_url).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sqlite_is_set_up_on_every_connection(sqlite_store: Store) -> None:
    def settings() -> list[object]:
        with sqlite_store.read() as tx:
            names = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
            return [tx.execute(text(f"PRAGMA {name}")).scalar_one() for name in names]

    with sqlite_store.read():  # a second connection
        assert settings() == ["wal", 1, 30_000, 2]


def test_a_foreign_key_holds(store: Store) -> None:
    user = add_user(store)
    add_run(store, user)

    with pytest.raises(DatabaseError), store.write() as tx:
        tx.execute(users_table.delete())


@pytest.mark.parametrize("name", ["missing/control.db", "folder"])
def test_a_file_that_cannot_be_made_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(StoreError, match=name):
        open_store(f"sqlite:///{tmp_path / name}")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    path.write_text("no database" * 1000)

    with pytest.raises(StoreError, match=r"control\.db.*not a database"):
        open_store(f"sqlite:///{path}")


@pytest.mark.control
def test_a_postgres_that_cannot_be_reached_is_named_without_the_password(
    postgres_url: str,
) -> None:
    wrong = postgres_url.replace(postgres_url.split(":")[2].split("@")[0], CANARY)

    for url in (f"{wrong}/postgres", f"postgresql://me:{CANARY}@127.0.0.1:9/none"):
        with pytest.raises(StoreError, match=r"127\.0\.0\.1") as refused:
            open_store(url)
        assert CANARY not in str(refused.value)
        assert CANARY not in repr(refused.value.__cause__)


def test_no_exception_or_log_holds_a_value(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with pytest.raises(DatabaseError) as failed, store.write() as tx:
        tx.execute(text("INSERT INTO no_such_table VALUES (:value)"), {"value": CANARY})

    assert CANARY not in str(failed.value)
    assert CANARY not in caplog.text
    assert CANARY not in repr(store)


def test_a_reader_cannot_write(store: Store) -> None:
    run = add_run(store, add_user(store))

    with pytest.raises(DatabaseError), store.read() as tx:
        runs.compare_and_set(tx, run.run_id, 1, reason="written by a reader")

    with store.write() as tx:  # the same connection of the pool
        assert runs.compare_and_set(tx, run.run_id, 1, reason="written by a writer") is not None


def test_a_text_that_no_database_takes_fails_nothing(store: Store) -> None:
    run = add_run(store, add_user(store))
    details = ExitDetails(component="trainer-0", last_lines=("a\0b", "caf\u00e9"))

    with store.write() as tx:
        written = runs.compare_and_set(
            tx, run.run_id, 1, reason="a\0b\udc80", exit_details=details, max_steps=2**40
        )
    with store.read() as tx:
        assert runs.get_run(tx, "run-1\0") is None
        assert runs.get_run(tx, "\ud800") is None
        assert runs.get_run(tx, run.run_id) == written

    assert written is not None
    assert written.reason == "a\ufffdb\ufffd"
    assert written.exit_details == details


def test_a_writer_within_a_writer_is_refused(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.store.store.BUSY_TIMEOUT_S", 0.05)

    with pytest.raises(StoreError, match="writing"), sqlite_store.write():
        add_user(sqlite_store)


def test_a_reader_does_not_wait_for_a_writer(store: Store) -> None:
    run = add_run(store, add_user(store))

    with store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, reason="being written")
        with store.read() as other:
            seen = runs.get_run(other, run.run_id)

    assert seen == run


def test_forty_threads_read_and_write_at_once(store: Store) -> None:
    user = add_user(store)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                add_run(store, user, f"run-{number}-{turn}")
                with store.read() as tx:
                    assert runs.get_run(tx, f"run-{number}-{turn}") is not None
        except BaseException as error:  # shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failed == []
    assert time.monotonic() - started < 30


def test_a_check_tells_whether_the_database_answers(store: Store) -> None:
    store.check()
