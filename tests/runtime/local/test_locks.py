"""Lock files of runs: gone with the run, and never a lock that nobody else sees."""

import threading
from pathlib import Path

import pytest

from runtime import supervisor_client as client
from runtime.local_state import remove_locks, run_lock, supervise_alone
from tests.runtime.local.local_runs import Local
from tests.waiting import wait_for


@pytest.fixture
def local(tmp_path: Path) -> Local:
    return Local(tmp_path)


def locks(local: Local) -> list[str]:
    return sorted(path.name for path in (local.state / "locks").iterdir())


def test_a_destroyed_run_leaves_no_lock(local: Local) -> None:
    second = local.run(attempt=2)
    for attempt in (1, 2):
        (local.state / "locks" / f"run-one.{attempt}.supervisor").touch()
    (local.state / "locks" / "run-other.lock").touch()

    client.release_run(second)
    stopped = locks(local)
    client.release_run(second, is_destroy=True)

    assert "run-one.lock" in stopped
    assert locks(local) == ["run-other.lock"]


def test_a_lock_that_is_held_stays(local: Local) -> None:
    run = local.run()
    assert supervise_alone(run)
    with run_lock(run):
        remove_locks(run)

        assert locks(local) == ["run-one.1.supervisor", "run-one.lock"]
        assert not supervise_alone(run)


def test_who_waited_for_a_lock_that_was_removed_holds_the_new_one(local: Local) -> None:
    run = local.run()
    path = local.state / "locks" / "run-one.lock"
    has_it, may_go = threading.Event(), threading.Event()

    def wait_for_lock() -> None:
        with run_lock(run):
            has_it.set()
            may_go.wait(60)

    waiter = threading.Thread(target=wait_for_lock)
    with run_lock(run):
        inode = path.stat().st_ino
        waiter.start()
        wait_for(lambda: is_waited_for(inode))
        path.unlink()  # the last that a remover does while it holds the lock
    assert has_it.wait(60)
    remove_locks(run)
    is_seen = path.exists()
    may_go.set()
    waiter.join()

    assert is_seen  # so the waiter holds the file that everybody else opens
    remove_locks(run)
    assert locks(local) == []


def is_waited_for(inode: int) -> bool:
    """Tell whether somebody waits for a lock of a file, as the kernel lists it."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f":{inode} " in line for line in lines)
