"""The split files of a run, by hand: what `runtime.launch.split` writes, for the engine alone."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LOG = {"level": "info", "json_logging": False}

Table = dict[str, Any]


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


def hosted_config(model: str, *, max_steps: int) -> DemoConfig:
    """Return the hosted service's example as prime-rl resolves it, with the model replaced."""
    dumps = json.loads((PROJECT / "tests/data/embedded/hosted-reverse-text.json").read_text())
    ours = (
        *("model", "tokenizer", "output_dir", "max_steps", "log"),
        *("weight_broadcast", "rollout_transport", "train", "eval", "num_train_workers"),
    )
    kept = {
        name: {key: value for key, value in dumps[f"{name}.json"].items() if key not in ours}
        for name in ("trainer", "orchestrator")
    }
    return DemoConfig(model=model, max_steps=max_steps, lr=3e-6, max_completion_tokens=512, **kept)


def write_configs(run: Path, demo: DemoConfig, ports: Iterator[int]) -> dict[str, list[str]]:
    """Write the split files and return each component's argv."""
    engines = [next(ports) for _ in range(demo.num_infer_gpus)]
    sources = {"train": source(demo, next(ports))}
    if demo.eval_source is not None:
        sources["eval"] = {**source(demo, next(ports)), **demo.eval_source}
    urls = [f"http://127.0.0.1:{port}/v1" for port in engines]
    files: dict[str, Table] = {
        "trainer": trainer_table(run, demo),
        "orchestrator": orchestrator_table(run, demo, sources=sources, urls=urls),
        "inference": {"vllm": {"model": demo.model}, "log": LOG},
    }
    commands: dict[str, list[str]] = {}
    for index, port in enumerate(engines):
        argv = module("inference", run / "configs/inference.json")
        commands[f"inference-{index}"] = [*argv, "--server.port", str(port)]
    for split, item in sources.items():
        file = f"envs/{split}/{item['name']}"
        files[file] = {"env": item["env"], "serve": item["serve"], "log": LOG}
        commands[f"env-{split}-{item['name']}"] = module("env_server", run / f"configs/{file}.json")
    commands["orchestrator"] = module("orchestrator", run / "configs/orchestrator.json")
    commands["trainer"] = [
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--max-restarts=0"),
        *(f"--nproc-per-node={demo.num_train_gpus}", "--rdzv-backend=c10d", "--rdzv-id=trainer"),
        *(f"--rdzv-endpoint=127.0.0.1:{next(ports)}", "--local-ranks-filter=0"),
        *("-m", "runtime.rl.trainer", "@", str(run / "configs/trainer.json")),
    ]
    for name, content in files.items():
        path = run / "configs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1))
    return commands


def trainer_table(run: Path, demo: DemoConfig) -> Table:
    """Return trainer.json."""
    return {
        **_shared(run, demo),
        "model": {"name": demo.model, "seq_len": 2048},
        "optim": {"type": "adamw", "lr": demo.lr, "weight_decay": 0.01, "max_norm": 1.0},
        "scheduler": {"type": "constant"},
        **demo.trainer,
    }


def orchestrator_table(
    run: Path, demo: DemoConfig, *, sources: dict[str, Table], urls: list[str]
) -> Table:
    """Return orchestrator.json."""
    client = {"base_url": urls[0], "admin_base_url": urls, "wait_for_ready_timeout": 120}
    return {
        **_shared(run, demo),
        "model": {"name": demo.model, "client": client},
        "train": {"source": [sources["train"]], "filter_zero_advantages": True},
        "eval": {"source": [sources["eval"]]} if "eval" in sources else None,
        "renderer": {"name": "prime-qwen3", "thinking_retention": None},
        "batch_size": demo.batch_size,
        "group_size": demo.group_size,
        "num_train_workers": demo.num_train_gpus,
        **demo.orchestrator,
    }


def _shared(run: Path, demo: DemoConfig) -> Table:
    return {
        "output_dir": str(run),
        "max_steps": demo.max_steps,
        "log": LOG,
        "tokenizer": {"name": demo.model},
        "weight_broadcast": {"type": "filesystem"},
        "rollout_transport": {"type": "filesystem"},
    }


def source(demo: DemoConfig, port: int) -> Table:
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
