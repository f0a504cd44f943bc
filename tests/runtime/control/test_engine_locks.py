"""Locks that only the engine's own words show: whose they are, and when they may be broken."""

import os
import socket
import subprocess
import time
from datetime import UTC, datetime

import pytest

from runtime.control.locks import (
    CLOCKS_S,
    LockedError,
    StackLock,
    is_owner_dead,
    is_owner_over,
    require_dead,
    told_locks,
)
from runtime.control.operations import OPERATION_S

HOST = socket.gethostname()


def refusal(*owners: tuple[str, int, str], told: int | None = None) -> str:
    """Return what the engine says to a command for these locks."""
    lines = [
        f"  s3://states?endpoint=http://s3:1/.pulumi/locks/organization/paddock/one/{number}.json: "
        f"created by ada@{host} (pid {pid}) at {stamp}"
        for number, (host, pid, stamp) in enumerate(owners)
    ]
    first = (
        f"error: the stack is currently locked by {len(owners) if told is None else told} lock(s). "
        "Either wait for the other process(es) to end or delete the lock file with `pulumi cancel`."
    )
    return "\n".join(["pulumi destroy --yes failed with exit code 255", first, *lines])


def stamp(ago_s: float = 0.0) -> str:
    """Return a time as the engine writes it."""
    return datetime.fromtimestamp(int(time.time() - ago_s), UTC).isoformat().replace("+00:00", "Z")


@pytest.fixture
def dead_pid() -> int:
    """Return the pid of a process that is over."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_lock_is_read_from_the_refusal() -> None:
    text = refusal(
        ("node-1.lab", 41, "2026-12-01T07:00:00Z"), ("x", 7, "2026-12-01T09:00:00+02:00")
    )

    first, second = told_locks(text)

    assert (first.host, first.pid, second.host, second.pid) == ("node-1.lab", 41, "x", 7)
    assert first.time == second.time == datetime(2026, 12, 1, 7, 0, 1, tzinfo=UTC).timestamp()


def test_another_error_tells_of_no_lock() -> None:
    assert (
        told_locks("error: update failed, created by ada@x (pid 4) at 2026-12-01T07:00:00Z") == []
    )


@pytest.mark.parametrize(
    "text",
    [
        refusal(told=1),
        refusal((HOST, 1 << 30, "yesterday")),
        refusal((HOST, 1 << 30, "2026-12-01T07:00:00Z"), told=2),
    ],
)
def test_a_lock_that_is_not_told_in_full_is_never_broken(text: str) -> None:
    locks = told_locks(text)

    with pytest.raises(LockedError, match="unknown host"):
        require_dead("one", locks, is_owner_over)


def test_a_lock_of_a_dead_process_of_this_host_is_broken(dead_pid: int) -> None:
    require_dead("one", told_locks(refusal((HOST, dead_pid, stamp()))), is_owner_dead)


def test_a_lock_of_a_living_process_is_not() -> None:
    locks = told_locks(refusal((HOST, os.getpid(), stamp())))

    with pytest.raises(LockedError, match=f"pid {os.getpid()} on {HOST}"):
        require_dead("one", locks, is_owner_dead)


def test_a_lock_of_another_host_is_broken_past_the_end_of_every_operation(dead_pid: int) -> None:
    over_s = OPERATION_S + CLOCKS_S
    [old] = told_locks(refusal(("elsewhere", dead_pid, stamp(over_s + 60))))
    young = StackLock(pid=dead_pid, host="elsewhere", time=time.time() - over_s + 60)

    assert is_owner_over(old)
    assert not is_owner_over(young)
    assert not is_owner_dead(old)
