"""Processes of this machine: identity, the environment mark of a run, and ending what carries it.

Reads /proc and sends signals, nothing else. A process is a (pid, start time) pair, since pids are
used again. Called by the supervisor, its client and the local observer.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_STATE, _PPID, _SESSION, _START = 0, 1, 3, 19  # fields of /proc/<pid>/stat after the name's ")"


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """One process: its pid and its start time in clock ticks since boot."""

    pid: int
    start_ticks: int


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a live process, None when it is gone or a zombie."""
    fields = _stat(pid)
    if fields is None or fields[_STATE] in {"Z", "X"}:
        return None
    return ProcessId(pid, int(fields[_START]))


def this_process() -> ProcessId:
    """Return the identity of the calling process."""
    own = identify(os.getpid())
    assert own is not None, "the calling process is not in /proc"
    return own


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose parents die (a child subreaper)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_alive(process: ProcessId) -> bool:
    """Tell whether exactly this process still runs; a zombie does not."""
    return identify(process.pid) == process


def send_signal(process: ProcessId, number: signal.Signals) -> None:
    """Signal exactly this process; a process that is gone is no error."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def marked_processes(
    is_wanted: Callable[[dict[bytes, bytes]], bool], *, spare: frozenset[int] = frozenset()
) -> frozenset[ProcessId]:
    """Return the processes whose environment is wanted, and all their descendants.

    The environment is the one at exec, so a program that overwrites it (setproctitle does) is found
    through its parent only. `spare` are pids that are never returned; the caller is one of them.
    """
    parents: dict[int, int] = {}
    identities: dict[int, ProcessId] = {}
    wanted: set[int] = set()
    for pid in _pids():
        fields = _stat(pid)
        if fields is None or fields[_STATE] in {"Z", "X"}:
            continue
        parents[pid] = int(fields[_PPID])
        identities[pid] = ProcessId(pid, int(fields[_START]))
        if is_wanted(_environment(pid)):
            wanted.add(pid)
    spared = spare | {os.getpid()}
    found = {pid for pid in parents if _has_ancestor(pid, parents, wanted)}
    return frozenset(identities[pid] for pid in found - spared)


def session_processes(leader: ProcessId) -> frozenset[ProcessId]:
    """Return what lives in the session that a process has begun, also after its own end.

    The kernel gives a pid out again only when no process is in the session of that number.
    """
    if identify(leader.pid) not in (leader, None):
        return frozenset()
    found = set()
    for pid in _pids():
        fields = _stat(pid)
        if fields is None or fields[_STATE] in {"Z", "X"} or int(fields[_SESSION]) != leader.pid:
            continue
        process = ProcessId(pid, int(fields[_START]))
        if process.start_ticks >= leader.start_ticks:
            found.add(process)
    return frozenset(found)


def end_processes(
    find: Callable[[], frozenset[ProcessId]], *, grace_s: float, deadline_s: float = 20.0
) -> bool:
    """End what `find` returns, SIGTERM first, SIGKILL after the grace; tell whether none is left.

    `find` is asked again until it returns nothing, so what is forked meanwhile is ended too.
    """
    start = time.monotonic()
    asked: set[ProcessId] = set()
    while found := find():
        waited = time.monotonic() - start
        if waited > grace_s + deadline_s:
            return False
        for process in found:
            if waited >= grace_s:
                send_signal(process, signal.SIGKILL)
            elif process not in asked:
                send_signal(process, signal.SIGTERM)
                asked.add(process)
        time.sleep(0.05)
    return True


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _environment(pid: int) -> dict[bytes, bytes]:
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in data.split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def _has_ancestor(pid: int, parents: dict[int, int], wanted: set[int]) -> bool:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        if pid in wanted:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False
