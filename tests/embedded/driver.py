"""Runs the embedded engine by hand, without Pulumi: split files, ports, processes, end.

Stands in for `runtime.launch` and the supervisor. `python -m tests.embedded.driver RUN_DIR` runs
the demo.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.embedded.demo_config import PROJECT, DemoConfig, write_configs

TASKSETS = PROJECT / "runtime" / "rl" / "tasksets"


@dataclass(kw_only=True)
class Run:
    """A started run: its directory and its processes."""

    path: Path
    processes: dict[str, subprocess.Popen[bytes]]

    def log(self, name: str) -> str:
        return (self.path / "logs" / f"{name}.log").read_text()

    def rows(self) -> list[dict[str, float]]:
        path = self.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def series(self, metric: str) -> list[float]:
        return [row[metric] for row in self.rows() if metric in row]

    def wait(
        self, timeout_s: float, names: tuple[str, ...] = ("trainer", "orchestrator")
    ) -> dict[str, int]:
        """Wait until the named processes ended or any process failed; return the exit codes."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            codes = {name: process.poll() for name, process in self.processes.items()}
            if any(code not in (None, 0) for code in codes.values()):
                break
            if all(codes[name] is not None for name in names):
                break
            time.sleep(0.05)
        return {name: code for name, code in codes.items() if code is not None}

    def tails(self, num_lines: int = 30) -> str:
        """Return the ends of all logs, for a failed assertion."""
        parts = []
        for name in self.processes:
            parts.append(f"--- {name}")
            parts += self.log(name).splitlines()[-num_lines:]
        return "\n".join(parts)


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


def environment() -> dict[str, str]:
    """Return a component's environment, as the launch layer makes it."""
    skipped = {"PYTHONDONTWRITEBYTECODE"}
    kept = {key: value for key, value in os.environ.items() if key not in skipped}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}",
        "PYTHONPATH": str(TASKSETS),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }


@contextmanager
def started(run: Path, demo: DemoConfig) -> Iterator[Run]:
    """Start a run's processes; all of them are gone when the block ends."""
    ports = iter(free_ports(demo.num_infer_gpus + 4))
    commands = write_configs(run, demo, ports)
    logs = run / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, argv in commands.items():
            with (logs / f"{name}.log").open("ab") as log:
                processes[name] = subprocess.Popen(
                    argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                    env=environment(), start_new_session=True, cwd=PROJECT,
                )  # fmt: skip
        yield Run(path=run, processes=processes)
    finally:
        _end_all(list(processes.values()))


def _end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + 5
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Run the demo and print what it did."""
    from runtime import homes
    from runtime.rl.tiny_model import ensure_tiny_model

    run = Path(sys.argv[1])
    demo = DemoConfig(model=str(ensure_tiny_model(homes.cache_path())))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for flag in sys.argv[2:]:
        key, _, value = flag.partition("=")
        setattr(demo, key, type(getattr(demo, key))(value))
    begun = time.time()
    cpu: dict[str, float] = {}
    with started(run, demo) as processes:
        codes: dict[str, int] = {}
        while set(codes) < {"trainer", "orchestrator"} and not any(codes.values()):
            codes = processes.wait(1)
            for name, process in processes.processes.items():
                cpu[name] = _cpu_s(process.pid) or cpu.get(name, 0.0)
    rows = processes.rows()
    first = min((row["time"] for row in rows if "reward/mean" in row), default=begun)
    rewards = processes.series("reward/mean")
    print("exit codes", codes, "total", round(time.time() - begun, 1), "s")
    print("first step after", round(first - begun, 1), "s; CPU seconds", cpu)
    print("rewards", [round(reward, 3) for reward in rewards])


def _cpu_s(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    # 11, 12: own user and system time; 13, 14: that of children that were waited for
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
