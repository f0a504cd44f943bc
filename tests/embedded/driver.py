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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
TASKSETS = PROJECT / "runtime" / "rl" / "tasksets"


@dataclass(kw_only=True)
class DemoConfig:
    """The demo's numbers; a test changes what it is about."""

    model: str
    max_steps: int = 100
    batch_size: int = 64
    group_size: int = 8
    lr: float = 5e-5
    max_completion_tokens: int = 12
    harness: str = "inproc-null"
    taskset: str = "reverse-text"
    num_train_gpus: int = 1
    num_infer_gpus: int = 1
    trainer: dict[str, Any] = field(default_factory=dict)
    orchestrator: dict[str, Any] = field(default_factory=dict)
    eval_source: dict[str, Any] | None = None


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


def seed_config(model: str, *, max_steps: int) -> DemoConfig:
    """Return the hosted service's example as prime-rl resolves it, with the model replaced."""
    dumps = json.loads((PROJECT / "tests/data/embedded/seed-reverse-text.json").read_text())
    ours = (
        *("model", "tokenizer", "output_dir", "max_steps", "log"),
        *("weight_broadcast", "rollout_transport", "train", "eval", "num_train_workers"),
    )
    kept = {
        name: {key: value for key, value in dumps[f"{name}.json"].items() if key not in ours}
        for name in ("trainer", "orchestrator")
    }
    return DemoConfig(model=model, max_steps=max_steps, lr=3e-6, max_completion_tokens=512, **kept)


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


def write_configs(run: Path, demo: DemoConfig, ports: Iterator[int]) -> dict[str, list[str]]:
    """Write the split files and return each component's argv."""
    engines = [next(ports) for _ in range(demo.num_infer_gpus)]
    urls = [f"http://127.0.0.1:{port}/v1" for port in engines]
    split_sources: list[tuple[str, dict[str, Any]]] = [("train", source(demo, next(ports)))]
    if demo.eval_source is not None:
        split_sources.append(("eval", {**source(demo, next(ports)), **demo.eval_source}))
    log = {"level": "info", "json_logging": False}
    shared = {
        "output_dir": str(run),
        "max_steps": demo.max_steps,
        "log": log,
        "tokenizer": {"name": demo.model},
        "weight_broadcast": {"type": "filesystem"},
        "rollout_transport": {"type": "filesystem"},
    }
    files: dict[str, dict[str, Any]] = {
        "trainer": {
            **shared,
            "model": {"name": demo.model, "seq_len": 2048},
            "optim": {"type": "adamw", "lr": demo.lr, "weight_decay": 0.01, "max_norm": 1.0},
            "scheduler": {"type": "constant"},
            **demo.trainer,
        },
        "orchestrator": {
            **shared,
            "model": {
                "name": demo.model,
                "client": {
                    "base_url": urls[0],
                    "admin_base_url": urls,
                    "wait_for_ready_timeout": 120,
                },
            },
            "train": {"source": [split_sources[0][1]], "filter_zero_advantages": True},
            "eval": {"source": [item[1] for item in split_sources[1:]]}
            if demo.eval_source
            else None,
            "renderer": {"name": "prime-qwen3", "thinking_retention": None},
            "batch_size": demo.batch_size,
            "group_size": demo.group_size,
            "num_train_workers": demo.num_train_gpus,
            **demo.orchestrator,
        },
        "inference": {
            "server": {"host": None, "port": 8000},
            "vllm": {"model": demo.model},
            "log": log,
        },
    }
    commands: dict[str, list[str]] = {}
    for index, port in enumerate(engines):
        commands[f"inference-{index}"] = [
            *module("inference", run / "configs/inference.json"),
            "--server.port",
            str(port),
        ]
    for split, item in split_sources:
        name = f"env-{split}-{item['name']}"
        files[f"envs/{split}/{item['name']}"] = {
            "env": item["env"],
            "serve": item["serve"],
            "log": log,
        }
        commands[name] = module("env_server", run / f"configs/envs/{split}/{item['name']}.json")
    commands["orchestrator"] = module("orchestrator", run / "configs/orchestrator.json")
    commands["trainer"] = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=1",
        f"--nproc-per-node={demo.num_train_gpus}", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{next(ports)}", "--rdzv-id=trainer", "--max-restarts=0",
        "--local-ranks-filter=0", "-m", "runtime.rl.trainer", "@", str(run /
        "configs/trainer.json"),
    ]  # fmt: skip
    for name, content in files.items():
        path = run / "configs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1))
    return commands


def source(demo: DemoConfig, port: int) -> dict[str, Any]:
    """Return one source as the orchestrator's dump holds it."""
    return {
        "name": demo.taskset,
        "env": {
            "taskset": {"id": demo.taskset},
            "agent": {"harness": {"id": demo.harness}, "runtime": {"type": "subprocess"}},
        },
        "serve": {
            "pool": {"type": "elastic", "max_workers": None, "multiplex": 128},
            "address": f"tcp://127.0.0.1:{port}",
            "max_concurrent": None,
        },
        "ratio": 1.0,
        "sampling": {
            "temperature": 1.0,
            "max_completion_tokens": demo.max_completion_tokens,
            "extra_body": {"top_k": -1, "min_p": 0.0, "return_token_ids": True},
        },
        "group_size": demo.group_size,
    }


def module(name: str, config: Path) -> list[str]:
    """Return the argv of a component."""
    return [sys.executable, "-m", f"runtime.rl.{name}", "@", str(config)]


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
    from runtime.rl.tiny_model import cache_root, ensure_tiny_model

    run = Path(sys.argv[1])
    demo = DemoConfig(model=str(ensure_tiny_model(cache_root())))
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
