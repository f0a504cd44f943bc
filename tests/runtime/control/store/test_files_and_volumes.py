"""Settings files of stacks, volumes, and the backup."""

import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.control.store import events, runs, stack_files, volumes
from runtime.control.store.backup import back_up
from runtime.control.store.store import Store
from runtime.control.store.volumes import NewVolume
from runtime.control.values import VolumeStatus
from runtime.errors import ConflictError, StoreError
from tests.runtime.control.postgres import find_programs, made_database
from tests.runtime.control.store.rows import add_run, add_team, add_user

CANARY = "hunter2-canary"
FILE = """\
encryptionsalt: v1:aaaa:v1:bbbb
config:
  paddock:kind: run  # kept
  paddock:env:
    HF_TOKEN:
      secure: v1:cccc
"""


def test_a_settings_file_is_kept_byte_for_byte(store: Store) -> None:
    with store.write() as tx:
        stack_files.put_file(tx, "run-1", "config: {}\n")
        stack_files.put_file(tx, "run-1", FILE)
        stack_files.put_file(tx, "run-2", FILE)
        stack_files.remove_file(tx, "run-2")

    with store.read() as tx:
        assert stack_files.get_file(tx, "run-1") == FILE
        assert stack_files.get_file(tx, "run-2") is None


@pytest.mark.parametrize(
    "text",
    [
        f"config:\n  paddock:env:\n    HF_TOKEN: {CANARY}\n",
        f"config:\n  paddock:env: {CANARY}\n",
        f"config:\n  paddock:env:\n    HF_TOKEN:\n      secure: v1\n      value: {CANARY}\n",
        f"config:\n  paddock:env: [{CANARY}]\n",
        f"config: [{CANARY}\n",
    ],
)
def test_a_settings_file_with_a_secret_in_clear_is_refused(sqlite_store: Store, text: str) -> None:
    with pytest.raises(StoreError) as refused, sqlite_store.write() as tx:
        stack_files.put_file(tx, "run-1", text)

    assert CANARY not in str(refused.value)
    with sqlite_store.read() as tx:
        assert stack_files.get_file(tx, "run-1") is None


def test_a_volume_belongs_to_its_user_or_team(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    team = add_team(store, "lab", ada, bob)
    own = NewVolume(
        name="weights", user_id=ada.user_id, size="5Ti", cluster="local", claim_name="weights-1"
    )
    shared = NewVolume(
        name="weights",
        user_id=ada.user_id,
        team_id=team.team_id,
        size="1Ti",
        cluster="local",
        claim_name="weights-2",
    )
    with store.write() as tx:
        first, second = volumes.add_volume(tx, own), volumes.add_volume(tx, shared)

    with store.read() as tx:
        assert volumes.get_volume(tx, "weights", user_id=ada.user_id) == first
        assert volumes.get_volume(tx, "weights", user_id=bob.user_id) is None
        found = volumes.get_volume(tx, "weights", user_id=bob.user_id, team_id=team.team_id)
        assert found == second
        assert volumes.list_volumes(tx, user_id=ada.user_id) == [first]
    with pytest.raises(ConflictError, match="weights"), store.write() as tx:
        volumes.add_volume(tx, own)


def test_a_volume_is_made_changed_and_forgotten(store: Store) -> None:
    ada = add_user(store)
    new = NewVolume(name="w", user_id=ada.user_id, size="5Ti", cluster="c", claim_name="w")
    with store.write() as tx:
        made = volumes.add_volume(tx, new)
        assert volumes.unsettled_volumes(tx) == [made]
        changed = volumes.change_volume(tx, made.volume_id, status=VolumeStatus.RUNNING, size="6Ti")
        assert volumes.unsettled_volumes(tx) == []
        volumes.remove_volume(tx, made.volume_id)
        assert volumes.change_volume(tx, made.volume_id, size="7Ti") is None
        again = volumes.add_volume(tx, new)

    assert changed is not None
    assert (changed.status, changed.size) == (VolumeStatus.RUNNING, "6Ti")
    assert again.volume_id != made.volume_id


def test_a_backup_is_taken_while_somebody_writes_and_can_be_restored(
    sqlite_store: Store, tmp_path: Path, opened: Callable[[str], Store]
) -> None:
    user = add_user(sqlite_store)
    run = add_run(sqlite_store, user)
    target = tmp_path / "backups.db"
    target.write_text("an older backup")
    with sqlite_store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, reason="not yet kept")
        back_up(sqlite_store.engine.url, target)

    add_run(sqlite_store, user, "later")
    restored_path = tmp_path / "restored.db"
    shutil.copyfile(target, restored_path)
    restored = opened(f"sqlite:///{restored_path}")

    with restored.read() as tx:
        assert runs.get_run(tx, run.run_id) == run
        assert runs.get_run(tx, "later") is None
    assert restored.control_plane_id == sqlite_store.control_plane_id
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob(".backups*")] == []


@pytest.mark.control
def test_a_backup_of_postgres_is_pg_dumps_work(
    postgres_url: str, tmp_path: Path, opened: Callable[[str], Store]
) -> None:
    store = opened(f"{postgres_url}/postgres")

    with pytest.raises(StoreError, match="pg_dump --format=custom"):
        back_up(store.engine.url, tmp_path / "dump")


@pytest.mark.control
def test_a_dump_of_postgres_can_be_restored(
    postgres_url: str, tmp_path: Path, opened: Callable[[str], Store]
) -> None:
    names = [made_database(postgres_url, name) for name in ("dumped", "restored")]
    store = opened(f"{postgres_url}/{names[0]}")
    run = add_run(store, add_user(store))
    with store.write() as tx:
        events.add_event(tx, run, "notice", message="before the dump")
    programs = find_programs()
    dump = tmp_path / "control.dump"
    target = f"--dbname={postgres_url}/{names[1]}"
    for command in (
        [programs / "pg_dump", "--format=custom", f"--file={dump}", f"{postgres_url}/{names[0]}"],
        [programs / "pg_restore", "--exit-on-error", target, dump],
    ):
        subprocess.run(command, check=True, timeout=120, capture_output=True)

    restored = opened(f"{postgres_url}/{names[1]}")

    with restored.write() as tx:
        assert runs.get_run(tx, run.run_id) == run
        before = events.list_events(tx, run.run_id)
        later = events.add_event(tx, run, "notice", message="after it")
    assert [event.message for event in before] == ["before the dump"]
    assert later > before[0].event_id
    assert restored.control_plane_id == store.control_plane_id
