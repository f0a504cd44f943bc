"""The processes of a pod that has several: one engine each, started together, ended together.

A program of its own in one file, Python 3.10 and the standard library only, run by the wrapper as
the pod's component: `ranks.py <pod key>`. It reads the command lines from launch.json beside it,
puts `[rank k] ` before each line of output, and ends when the first process does.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

GRACE_S = 8.0  # the wrapper kills after 10
MAX_PIECE = 1 << 16
_LOCK = threading.Lock()


class Ranks:
    """The processes, from their start to the end of the last."""

    def __init__(self, commands: "list[dict]") -> None:
        self._commands = commands
        self._processes: list[subprocess.Popen[bytes]] = []
        self._asked = threading.Event()

    def run(self) -> int:
        """Start all, wait for the first that ends, end the others; return its exit code."""
        signal.signal(signal.SIGTERM, lambda number, _: self._end_all(number))
        readers = [self._start(rank, command) for rank, command in enumerate(self._commands)]
        code = self._first_end()
        self._end_all(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in readers:
            reader.join(GRACE_S)
        return code

    def _start(self, rank: int, command: "dict") -> threading.Thread:
        process = subprocess.Popen(
            command["argv"],
            env={**os.environ, **command["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._processes.append(process)
        reader = threading.Thread(target=forward, args=(rank, process.stdout), daemon=True)
        reader.start()
        return reader

    def _first_end(self) -> int:
        """Wait for the first end and return the exit code that stands for all."""
        pid, status, _ = os.wait3(0)
        code = os.waitstatus_to_exitcode(status)
        for rank, process in enumerate(self._processes):
            if process.pid == pid:
                process.returncode = code
                if not self._asked.is_set():
                    say(f"rank {rank} ended with code {code}: ending the others")
        return code if code >= 0 else 128 - code

    def _end_all(self, number: int) -> None:
        self._asked.set()
        for process in self._processes:
            if process.returncode is None:  # not send_signal: that reaps, and then nobody waits
                os.kill(process.pid, number)


def forward(rank: int, output) -> None:  # noqa: ANN001 - a binary pipe
    """Copy a process' output to stdout; lines of two processes do not mix unless very long."""
    head = f"[rank {rank}] ".encode()
    at_start = True
    while piece := output.readline(MAX_PIECE):
        with _LOCK:
            sys.stdout.buffer.write(head + piece if at_start else piece)
            sys.stdout.buffer.flush()
        at_start = piece.endswith(b"\n")


def say(text: str) -> None:
    """Print a line of this program's own."""
    with _LOCK:
        print(f"ranks: {text}", flush=True)


def main() -> int:
    """Run the commands of the pod that the command line names."""
    document = json.loads((Path(__file__).absolute().parent / "launch.json").read_text())
    return Ranks(document["pods"][sys.argv[1]]["commands"]).run()


if __name__ == "__main__":
    sys.exit(main())
