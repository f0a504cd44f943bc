"""Starts, finds and ends the testbed's programs, each in a session of its own.

A program is known by a file with its pid and start time; its output goes to a log.
"""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runtime.errors import SetupError
from runtime.processes import ProcessId, end_processes, identify, is_alive
from tests.testbed.layout import LOGS, RUN

PIDS = RUN / "pids"
NUM_TAIL_LINES = 20
PORT_WAIT_S = 60.0


def start_daemon(name: str, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
    """Start a program that outlives the caller."""
    LOGS.mkdir(parents=True, exist_ok=True)
    PIDS.mkdir(parents=True, exist_ok=True)
    with log_file(name).open("ab") as log:
        process = subprocess.Popen(
            list(command),
            cwd="/",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    identity = identify(process.pid)
    if identity is None:
        raise SetupError(f"{name} ended at once:\n{log_tail(name)}")
    record = {"pid": identity.pid, "start_ticks": identity.start_ticks}
    (PIDS / f"{name}.json").write_text(json.dumps(record))
    process.returncode = 0  # it is nobody's child: no warning when this object goes


def find_daemon(name: str) -> ProcessId | None:
    """Return the running program of a name."""
    try:
        record = json.loads((PIDS / f"{name}.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    process = ProcessId(record["pid"], record["start_ticks"])
    _reap(process.pid)
    return process if is_alive(process) else None


def stop_daemon(name: str, *, grace_s: float = 5.0) -> None:
    """End a program, if it runs, and forget it."""
    end_processes(
        lambda: frozenset() if (found := find_daemon(name)) is None else frozenset({found}),
        grace_s=grace_s,
    )
    (PIDS / f"{name}.json").unlink(missing_ok=True)


def kill_daemon(name: str) -> None:
    """End a program as a crash would."""
    stop_daemon(name, grace_s=0.0)


def known_daemons() -> list[str]:
    """Return the names of all programs that were started and not stopped."""
    return sorted(path.stem for path in PIDS.glob("*.json"))


def wait_until(
    condition: Callable[[], bool], *, what: str, daemons: Sequence[str], timeout_s: float = 90.0
) -> None:
    """Wait for a condition; raise SetupError when a program that it needs ends, or time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        for name in daemons:
            if find_daemon(name) is None:
                raise SetupError(f"{name} ended while it was awaited:\n{log_tail(name)}")
        if time.monotonic() > deadline:
            logs = "\n".join(f"{name}:\n{log_tail(name)}" for name in daemons)
            raise SetupError(f"not within {timeout_s:.0f} s: {what}\n{logs}")
        time.sleep(0.1)


def wait_for_ports(ports: Sequence[int]) -> None:
    """Wait until nobody listens on the ports: a testbed that just ended may still do."""
    deadline = time.monotonic() + PORT_WAIT_S
    while busy := [port for port in ports if not _is_free(port)]:
        if time.monotonic() > deadline:
            raise SetupError(
                f"port {busy[0]} of 127.0.0.1 is in use by another program (`ss -ltnp` names it): "
                "end it, or run the tests on another machine"
            )
        time.sleep(0.2)


def log_file(name: str) -> Path:
    """Return the log of a program."""
    return LOGS / f"{name}.log"


def log_tail(name: str) -> str:
    """Return the last lines of a program's log."""
    try:
        lines = log_file(name).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(lines[-NUM_TAIL_LINES:])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Go's listeners do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reap(pid: int) -> None:
    """Let go of a dead child, where this process is the one that started it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
