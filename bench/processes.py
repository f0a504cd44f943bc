"""What each program under this process has used of the CPU, as /proc tells while it runs.

Linux only. Used by benchmarks that have a command to take apart: a process is asked some fifty
times a second, and what it used after that is not counted.
"""

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAUSE_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def watched_processes() -> Iterator[dict[str, float]]:
    """Yield seconds of CPU by program, filled at the end with what ran within."""
    used: dict[int, tuple[str, float]] = {}
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(used, is_over), daemon=True)
    watch.start()
    found: dict[str, float] = defaultdict(float)
    try:
        yield found
    finally:
        is_over.set()
        watch.join()
        for program, seconds in used.values():
            found[program] += seconds


def _watch(used: dict[int, tuple[str, float]], is_over: threading.Event) -> None:
    while not is_over.wait(PAUSE_S):
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError, IndexError):  # it has gone in between
                known, _ = used.get(pid, ("", 0.0))
                used[pid] = (_program(pid) or known, _cpu_s(pid))


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _program(pid: int) -> str:
    """Return what a process runs: its program, or the last module that Python is told to run.

    Empty for one that has ended and is not waited for yet.
    """
    words = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    modules = [word for word in words[1:] if word[:1].isalpha() and "." in word and "/" not in word]
    is_python = Path(words[0]).name.startswith("python")
    return modules[-1] if is_python and modules else Path(words[0]).name


def _cpu_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S
