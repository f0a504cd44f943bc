"""Run directories for tests of readers and of capture, as the wrapper and the engine write them."""

import json
from datetime import UTC, datetime
from pathlib import Path

from runtime.artifacts import RunDirectory
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.config import load_config
from runtime.control.values import StoredRun
from runtime.plan import build_plan, plan_to_json
from runtime.states import RunState

NOON = 1_796_040_000.0
RUN_ID = "run-1"

TOML = """
max_steps = 4
[model]
name = "paddock/tiny-reverse-text"
[deployment]
num_train_gpus = 1
num_infer_gpus = 1
[trainer]
[orchestrator]
batch_size = 8
[[orchestrator.train.source]]
name = "math"
env = { taskset = { id = "arithmetic" } }
[orchestrator.renderer]
name = "default"
[inference]
"""


def stored_run(path: Path, state: RunState = RunState.RUNNING, attempt: int = 1) -> StoredRun:
    """Return a run of the local target, one trainer and one engine."""
    plan = build_plan(load_config(TOML), run_id=RUN_ID, attempt=attempt, profile=profile(path))
    time = datetime.fromtimestamp(NOON, UTC)
    return StoredRun(
        run_id=RUN_ID,
        user_id="u1",
        name="math",
        model=plan.model,
        config_text=TOML,
        config_digest=plan.config_digest,
        plan_json=plan_to_json(plan),
        cluster="local",
        num_gpus=2,
        state=state,
        attempt=attempt,
        created_at=time,
        updated_at=time,
        started_at=time,
    )


def profile(path: Path) -> ClusterProfile:
    """Return a local cluster whose run volume is a folder."""
    gpu = GpuOffer(name="CPU", num_nodes=1, gpus_per_node=8, price_usd_per_hour=0)
    connection = LocalConnection(state_path=str(path / "state"), cache_path=str(path / "cache"))
    return ClusterProfile(
        name="local", gpus=(gpu,), connection=connection, runs_path=str(path / "runs")
    )


def run_directory(path: Path) -> RunDirectory:
    """Return the run's directory on that cluster."""
    return RunDirectory(path / "runs" / RUN_ID)


def write_log(run: RunDirectory, log: str, rows: list[tuple[float, str]], attempt: int = 1) -> Path:
    """Append lines with their times to a component's log, as the wrapper does."""
    path = run.logs(attempt) / log
    path.parent.mkdir(parents=True, exist_ok=True)
    offset = path.stat().st_size if path.exists() else 0
    with path.open("ab") as file, Path(f"{path}.idx").open("a") as index:
        for time, line in rows:
            data = line.encode() + b"\n"
            index.write(f"{time:.3f} {offset}\n")
            file.write(data)
            offset += len(data)
    return path


def write_metrics(run: RunDirectory, name: str, rows: list[dict[str, object]]) -> None:
    """Append rows of metrics."""
    run.path.mkdir(parents=True, exist_ok=True)
    with (run.path / name).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_traces(run: RunDirectory, step: int, rewards: list[float]) -> None:
    """Write the rollouts of a step."""
    folder = run.rollouts / f"step_{step}" / "train" / "all"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "id": f"t{step}-{number}",
                "reward": reward,
                "num_output_tokens": 3 + number,
                "policy": {"start": max(0, step - 2), "end": step - 1},
                "nodes": [{"message": {"role": "user"}, "token_ids": [1, 2], "logprobs": [0.5]}],
                "error": "",
            }
        )
        for number, reward in enumerate(rewards)
    ]
    (folder / "traces.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (run.rollouts / f"step_{step}" / "rank_0.bin").write_bytes(b"x" * 100)


def write_checkpoint(run: RunDirectory, step: int, size: int = 1000) -> None:
    """Write a whole checkpoint."""
    folder = run.checkpoints / f"step_{step}" / "trainer"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * (size // 256 + 1))


def write_run(path: Path) -> RunDirectory:
    """Write a small run of all kinds of files."""
    run = run_directory(path)
    words = ["INFO step {} reward 0.5", "DEBUG a {} b", "ERROR {} failed", "  at line {}"]
    rows = [(NOON + n, f"12:00:{n:02} {words[n % 4].format(n)}") for n in range(40)]
    for log in ("orchestrator.log", "trainer.log", "inference.log", "envs/train/math.log"):
        write_log(run, log, rows)
    write_metrics(
        run,
        "metrics.jsonl",
        [{"step": n, "time": NOON + n, "reward/mean": 0.1 * n} for n in range(1, 4)],
    )
    write_metrics(
        run,
        "metrics-trainer.jsonl",
        [{"step": n, "time": NOON + n + 0.5, "loss": 1.0} for n in range(1, 4)],
    )
    for step in range(1, 4):
        write_traces(run, step, [0.0, 0.5, 1.0])
    for step in (2, 4):
        write_checkpoint(run, step)
    run.configs.mkdir(parents=True)
    run.toml.write_text(TOML)
    (run.broadcasts / "step_3").mkdir(parents=True)
    (run.broadcasts / "step_3" / "model.safetensors").write_bytes(b"w" * 1000)
    return run
