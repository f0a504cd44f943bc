"""Says what `make setup` is doing: one line a step, and one every ten seconds while it runs."""

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runtime.errors import SetupError

INTERVAL_S = 10.0
NUM_TAIL_LINES = 15

_print_lock = threading.Lock()


def say(topic: str, text: str) -> None:
    """Print one line under a topic."""
    with _print_lock:
        print(f"[{topic}] {text}", flush=True)


def run_with_progress(
    command: Sequence[str | Path],
    *,
    topic: str,
    what: str,
    environment: Mapping[str, str],
    describe: Callable[[str], str] = lambda log: "",
) -> float:
    """Run a command to its end, print its progress, and return the seconds that it took.

    `describe` turns the output so far into a word of progress. Raises SetupError with the last
    lines of output when the command fails.
    """
    started = time.monotonic()
    say(topic, f"{what} ...")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        while True:
            try:
                return_code = process.wait(INTERVAL_S)
                break
            except subprocess.TimeoutExpired:
                output = _read(log.fileno())
                detail = describe(output)
                elapsed_s = time.monotonic() - started
                say(topic, f"{what}: {elapsed_s:.0f} s" + (f", {detail}" if detail else ""))
            except BaseException:
                process.terminate()
                process.wait()
                raise
        output = _read(log.fileno())
    elapsed_s = time.monotonic() - started
    if return_code != 0:
        tail = "\n".join(output.splitlines()[-NUM_TAIL_LINES:])
        raise SetupError(f"{what} failed with exit code {return_code}:\n{tail}")
    say(topic, f"{what}: done in {elapsed_s:.1f} s")
    return elapsed_s


def _read(file_descriptor: int) -> str:
    """Return all that was written so far, without moving the writer's position."""
    with open(f"/proc/self/fd/{file_descriptor}", "rb") as copy:
        return copy.read().decode(errors="replace")
