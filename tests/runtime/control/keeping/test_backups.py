"""`paddock backup` and `restore`: what comes back, and what is left as it was when it cannot."""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runtime.cli import app
from runtime.control.presence import lock_out_servers
from runtime.control.store import runs, schema, wallets
from runtime.control.store.restore import restore
from runtime.control.store.store import Store, open_store
from runtime.control.values import EntryKind
from runtime.errors import NotFoundError, PaddockError, SetupError, StoreError
from tests.runtime.control.store.rows import add_run, add_user


def paddock(*arguments: str) -> str:
    """Run a command and return what it printed; its error is raised."""
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=True)
    if isinstance(result.exception, PaddockError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where backups go."""
    made = tmp_path / "backups"
    made.mkdir()
    return made


@pytest.fixture
def path(sqlite_url: str) -> Path:
    """Return the database's file."""
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
def copy(sqlite_url: str, folder: Path) -> Path:
    """Return a backup with one run, of a database that has two by now."""
    store = open_store(sqlite_url)
    user = add_user(store)
    add_run(store, user, "run-1")
    with store.write() as tx:
        movement = wallets.Movement(
            wallet_id=f"user/{user.user_id}", key="k", kind=EntryKind.CREDIT, amount_microusd=7
        )
        wallets.post(tx, movement)
    target = folder / "monday.db"
    said = paddock("backup", str(target), "--database", sqlite_url)
    add_run(store, user, "run-2")
    store.close()
    assert "is copied to" in said
    return target


def run_ids(url: str) -> list[str]:
    """Return the runs of a database."""
    store = open_store(url)
    try:
        with store.read() as tx:
            found = [runs.get_run(tx, run_id) for run_id in ("run-1", "run-2")]
        return [run.run_id for run in found if run is not None]
    finally:
        store.close()


def names(path: Path) -> set[str]:
    """Return what lies beside a database."""
    return {one.name for one in path.parent.iterdir() if one.name.startswith((".", path.name))}


def test_a_backup_comes_back_and_what_was_there_is_kept(
    sqlite_url: str, path: Path, copy: Path
) -> None:
    said = paddock("restore", str(copy), "--database", sqlite_url)

    (kept,) = [one for one in path.parent.iterdir() if ".replaced-" in one.name]
    assert "has 1 runs again" in said
    assert str(kept) in said.replace("\n", "")
    assert run_ids(sqlite_url) == ["run-1"]
    assert run_ids(f"sqlite:///{kept}") == ["run-1", "run-2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(copy.parent) == [copy.name]
    store = open_store(sqlite_url)
    with store.write() as tx:
        assert [one.balance_microusd for one in wallets.list_wallets(tx)] == [7]
        assert runs.compare_and_set(tx, "run-1", 1, reason="goes on") is not None
    store.close()


def test_a_database_that_is_lost_comes_back_from_a_folder_that_is_only_read(
    sqlite_url: str, path: Path, copy: Path
) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()
    copy.chmod(0o400)
    copy.parent.chmod(0o500)
    try:
        assert restore(copy, path).replaced is None
    finally:
        copy.parent.chmod(0o700)
    assert run_ids(sqlite_url) == ["run-1"]


def test_a_database_with_a_server_is_left_alone(sqlite_url: str, path: Path, copy: Path) -> None:
    with lock_out_servers(path), pytest.raises(SetupError, match="another server works on"):
        paddock("restore", str(copy), "--database", sqlite_url)

    assert run_ids(sqlite_url) == ["run-1", "run-2"]


def test_a_database_that_somebody_has_open_is_left_alone(
    sqlite_url: str, path: Path, copy: Path
) -> None:
    store = open_store(sqlite_url)
    add_user(store, "bob")

    with pytest.raises(StoreError, match="end every command that uses it"):
        restore(copy, path)

    store.close()
    assert run_ids(sqlite_url) == ["run-1", "run-2"]


def of_nothing(folder: Path) -> Path:
    return folder / "missing.db"


def of_text(folder: Path) -> Path:
    (folder / "text.db").write_text("no database at all\n" * 100)
    return folder / "text.db"


def of_something_else(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "other.db")) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    return folder / "other.db"


def of_nobody(folder: Path) -> Path:
    (folder / "empty.db").touch()
    return folder / "empty.db"


def of_a_newer_release(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "monday.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    return folder / "monday.db"


def of_half_a_file(folder: Path) -> Path:
    whole = folder / "monday.db"
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    return whole


@pytest.mark.parametrize(
    "spoil",
    [of_nothing, of_text, of_something_else, of_nobody, of_a_newer_release, of_half_a_file],
)
def test_what_is_no_backup_changes_nothing(
    sqlite_url: str, path: Path, copy: Path, spoil: Callable[[Path], Path]
) -> None:
    given = spoil(copy.parent)
    before = names(path)

    with pytest.raises((NotFoundError, StoreError), match=given.name):
        restore(given, path)

    assert names(path) == before
    assert run_ids(sqlite_url) == ["run-1", "run-2"]


def test_a_crash_halfway_leaves_the_old_database(
    sqlite_url: str, path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        restore(copy, path)

    assert not [name for name in names(path) if "restore" in name]
    assert run_ids(sqlite_url) == ["run-1", "run-2"]


def test_a_backup_of_an_older_release_is_upgraded(sqlite_url: str, path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("DROP INDEX ix_ledger_wallet_id_kind_entry_id")
        connection.execute("ALTER TABLE runs DROP COLUMN wish_reason")
        connection.execute("UPDATE alembic_version SET version_num = '0002'")
        connection.commit()

    restore(copy, path)

    store = open_store(sqlite_url)
    with store.read() as tx:
        assert schema.current_revision(tx) == schema.newest_revision()
        run = runs.get_run(tx, "run-1")
    store.close()
    assert run is not None
    assert run.wish_reason == ""


def test_a_backup_does_not_upgrade_what_an_older_release_made(
    sqlite_url: str, path: Path, copy: Path
) -> None:
    target = copy.with_name("before.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0002'")
        connection.commit()

    paddock("backup", str(target), "--database", sqlite_url)

    for one in (path, target):
        with closing(sqlite3.connect(one)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        assert found == [("0002",)], one


def test_what_is_no_database_is_not_backed_up(sqlite_url: str, path: Path, folder: Path) -> None:
    path.write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match=r"not a database: nothing was copied"):
        paddock("backup", str(folder / "copy.db"), "--database", sqlite_url)

    assert not (folder / "copy.db").exists()


def test_a_damaged_database_is_named_with_what_to_do(path: Path, copy: Path) -> None:
    path.write_bytes(b"damaged" * 1000)

    with pytest.raises(StoreError, match="move it away"):
        restore(copy, path)


def test_a_database_that_is_not_there_is_not_backed_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'missing.db'}"

    with pytest.raises(NotFoundError, match=r"no database .*missing.db"):
        paddock("backup", str(tmp_path / "copy.db"), "--database", url)

    assert list(tmp_path.iterdir()) == []


def test_a_backup_into_no_folder_names_the_folder(sqlite_url: str, tmp_path: Path) -> None:
    open_store(sqlite_url).close()

    with pytest.raises(NotFoundError, match=f"no folder {tmp_path / 'none'}: make it"):
        paddock("backup", str(tmp_path / "none" / "copy.db"), "--database", sqlite_url)


def test_postgres_is_restored_by_its_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_DATABASE", "postgresql://ada:hunter2@127.0.0.1:1/control")

    with pytest.raises(StoreError, match="pg_restore --clean --if-exists") as refused:
        paddock("restore", str(tmp_path / "dump"))

    assert "hunter2" not in str(refused.value)


def test_a_backup_is_taken_while_a_server_works(sqlite_store: Store, tmp_path: Path) -> None:
    database = str(sqlite_store.engine.url.database)
    add_run(sqlite_store, add_user(sqlite_store), "run-1")
    with lock_out_servers(Path(database)):
        paddock("backup", str(tmp_path / "copy.db"), "--database", f"sqlite:///{database}")

    assert run_ids(f"sqlite:///{tmp_path / 'copy.db'}") == ["run-1"]
