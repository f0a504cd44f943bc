"""Waits for what another process does, up to a deadline, and finds children that nobody reaped."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from runtime.processes import ProcessId

T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, timeout_s: float = 120.0) -> T:
    """Return the condition's value once it is true; fail at the deadline."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {condition}")


@contextlib.contextmanager
def killed_after(
    process: "subprocess.Popen[Any]",  # Any: of text or of bytes
    timeout_s: float = 120.0,
) -> Iterator[None]:
    """Kill a process at the deadline, so that no read of what it says is without one."""
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def zombies() -> list[ProcessId]:
    """Return this process' children that ended and were not reaped."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{int(entry)}/stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" and int(fields[1]) == os.getpid():
                found.append(ProcessId(int(entry), int(fields[19])))
    return found
