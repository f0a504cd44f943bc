"""What a killed engine leaves in a backend: its lock, and half-written sidecar files.

A lock may be broken only when its owner is proved dead: on this host, and no process of that pid
that is older than the lock. What no folder shows is read from the engine's own refusal.
"""

import json
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runtime import naming
from runtime.control.operations import OPERATION_S
from runtime.errors import StackError
from runtime.processes import identify

CLOCKS_S = 600.0
"""By how much the clocks of two servers may differ where the age of a lock decides."""

_TOLD = re.compile(r"the stack is currently locked by (\d+) lock")
_OWNER = re.compile(r"created by .*@(\S*) \(pid (\d+)\) at (\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class StackLock:
    """A lock on a stack; `time` is when it was taken, seconds since the epoch."""

    pid: int
    host: str
    time: float
    path: Path = Path()


IsDead = Callable[[StackLock], bool]
"""Proves the owner of a lock dead."""


class LockedError(StackError):
    """An engine that is not proved dead holds the stack."""

    code = "stack_locked"


def require_dead(stack: str, locks: Sequence[StackLock], is_dead: IsDead) -> None:
    """Raise LockedError where the owner of one of a stack's locks is not proved dead."""
    for lock in locks:
        if not is_dead(lock):
            raise LockedError(
                f"{stack} is locked by pid {lock.pid} on {lock.host or 'an unknown host'}, which "
                f"is not proved dead: wait for it, or `pulumi cancel --stack {stack}`"
            ) from None


def stack_locks(backend: Path, stack: str) -> list[StackLock]:
    """Return the locks on a stack in a file backend."""
    folder = backend / ".pulumi" / "locks" / "organization" / naming.PROJECT / stack
    locks = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
            time = datetime.fromisoformat(str(data["timestamp"])).timestamp()
            pid, host = int(data["pid"]), str(data["hostname"])
            locks.append(StackLock(pid=pid, host=host, time=time, path=path))
        except (OSError, ValueError, KeyError, TypeError):
            locks.append(StackLock(pid=0, host="", time=0.0))  # unreadable: its owner is unknown
    return locks


def told_locks(text: str) -> list[StackLock]:
    """Return the locks for which the engine refused a command, from its words; none for others.

    That is how a lock in an object store is read, whichever store it is. A lock that is not told
    in full has an unknown owner, so it is never proved dead.
    """
    refusal = _TOLD.search(text)
    if refusal is None:
        return []
    locks = []
    for host, pid, stamp in _OWNER.findall(text[refusal.end() :]):
        try:
            taken = datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            continue
        # the engine tells whole seconds
        locks.append(StackLock(pid=int(pid), host=host, time=taken + 1.0))
    unknown = StackLock(pid=0, host="", time=float("inf"))
    return [*locks, *[unknown] * (int(refusal[1]) - len(locks))] or [unknown]


def drop_dead_locks(backend: Path, stack: str) -> None:
    """Remove the locks of dead engines on a stack that is gone, which the engine cannot cancel."""
    for lock in stack_locks(backend, stack):
        if is_owner_dead(lock):
            lock.path.unlink(missing_ok=True)
            lock.path.with_name(f"{lock.path.name}.attrs").unlink(missing_ok=True)


def remove_torn_sidecars(backend: Path) -> list[Path]:
    """Remove the empty `.attrs` files that killed engines left, and return them.

    With one of them the engine reads no stack of the backend ("EOF"). They hold a content type
    only, so one that a living engine is just writing is not missed either.
    """
    folder = backend / ".pulumi"
    found = [*folder.glob("stacks/**/*.attrs"), *folder.glob("locks/**/*.attrs")]
    torn = [path for path in found if path.stat().st_size == 0]
    for path in torn:
        path.unlink(missing_ok=True)
    return torn


def is_owner_dead(lock: StackLock) -> bool:
    """Tell whether the lock's owner is proved dead; a lock of another host never is."""
    if lock.host != socket.gethostname() or lock.pid <= 0:
        return False
    started = _started_at(lock.pid)
    # a process that started after the lock was taken has only inherited the number
    return started is None or started > lock.time + 1.0


def is_owner_over(lock: StackLock) -> bool:
    """Tell whether a lock is of a dead server's operation that is past its end on any host.

    Only for a stack that servers alone work on, whose last one is known to be dead by its lease.
    """
    return is_owner_dead(lock) or time.time() > lock.time + OPERATION_S + CLOCKS_S


def _started_at(pid: int) -> float | None:
    """Return when a live process started, in seconds since the epoch."""
    process = identify(pid)
    if process is None:
        return None
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime ")
    )
    return boot + process.start_ticks / os.sysconf("SC_CLK_TCK")
