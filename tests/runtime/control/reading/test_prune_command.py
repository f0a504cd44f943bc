"""`paddock runs prune` deletes what is over and captured, and says why the rest stays."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runtime.cli import app
from runtime.commands.admin import runs as command
from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import capture_run
from runtime.control.run_source import FolderSource
from runtime.control.store import events, runs, users
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.states import RunState, Teardown
from tests.runtime.control.reading.clusters import sources_of
from tests.runtime.control.reading.run_files import RUN_ID, run_directory, write_run
from tests.runtime.control.store.rows import add_run, add_user


@pytest.fixture
def ended(sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    """Store a run that is over and torn down, and has a directory."""
    write_run(tmp_path)
    monkeypatch.setattr(command, "_sources", lambda store: sources_of(tmp_path))
    run = add_run(sqlite_store, add_user(sqlite_store), RUN_ID, cluster="local")
    with sqlite_store.write() as tx:
        changed = runs.compare_and_set(
            tx, RUN_ID, run.version, state=RunState.COMPLETED, teardown=Teardown.DONE
        )
    assert changed is not None
    return changed


def prune(url: str, *words: str) -> list[dict[str, object]]:
    """Run the command and return what it says of each run."""
    arguments = ["runs", "prune", "--database", url, "--output", "json", *words]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return json.loads(result.stdout)


def test_only_a_captured_run_is_pruned(
    ended: StoredRun, sqlite_store: Store, sqlite_url: str, tmp_path: Path
) -> None:
    root = run_directory(tmp_path).path
    (kept,) = prune(sqlite_url, "--max-size", "1")
    assert (kept["pruned"], kept["kept_because"]) == (False, "it is not captured")
    assert root.exists()
    capture_run(ended, FolderSource(root), DirectoryStore(tmp_path / "artifacts"))

    (told,) = prune(sqlite_url, "--max-size", "1", "--dry-run")
    assert root.exists()
    (gone,) = prune(sqlite_url, "--max-size", "1")

    assert told == gone
    assert (gone["run"], gone["pruned"]) == (RUN_ID, True)
    assert not root.exists()
    assert prune(sqlite_url, "--max-size", "1") == []
    with sqlite_store.read() as connection:
        kinds = [event.kind for event in events.list_events(connection, RUN_ID)]
    assert kinds[-1] == "pruned"


def test_a_run_that_a_queued_one_starts_with_is_kept_until_that_is_over(
    ended: StoredRun, sqlite_store: Store, sqlite_url: str, tmp_path: Path
) -> None:
    root = run_directory(tmp_path).path
    capture_run(ended, FolderSource(root), DirectoryStore(tmp_path / "artifacts"))
    with sqlite_store.read() as connection:
        user = users.get_user(connection, ended.user_id)
    assert user is not None
    waiting = add_run(sqlite_store, user, "run-next", settings={"resumeFrom": f"{RUN_ID}:4"})

    (kept,) = prune(sqlite_url, "--max-size", "1")
    assert (kept["pruned"], root.exists()) == (False, True)
    assert kept["kept_because"] == f"{waiting.run_id} starts with its checkpoint"
    with sqlite_store.write() as tx:
        runs.compare_and_set(tx, waiting.run_id, waiting.version, state=RunState.STOPPED)
    (gone,) = prune(sqlite_url, "--max-size", "1")

    assert (gone["run"], gone["pruned"]) == (RUN_ID, True)
    assert not root.exists()


def test_a_prune_without_a_limit_is_refused(ended: StoredRun, sqlite_url: str) -> None:
    result = CliRunner().invoke(app, ["runs", "prune", "--database", sqlite_url])

    assert "older-than" in str(result.exception)
