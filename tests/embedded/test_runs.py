"""Whole runs of the embedded engine: four kinds of process, real env servers, no Pulumi."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.embedded.demo_config import DemoConfig, hosted_config
from tests.embedded.driver import Run, environment, started

pytestmark = pytest.mark.embedded

DONE = {"trainer": 0, "orchestrator": 0}


def assert_finished(run: Run, codes: dict[str, int]) -> None:
    assert codes == DONE, run.tails()
    assert "Orchestrator finished." in run.log("orchestrator")
    assert "RL trainer finished!" in run.log("trainer")


def test_the_demo_learns(tiny_model: str, tmp_path: Path):
    with started(tmp_path, DemoConfig(model=tiny_model)) as run:
        codes = run.wait(540)
        assert_finished(run, codes)

    rewards = run.series("reward/mean")
    assert len(rewards) == 100
    assert 0.3 < sum(rewards[:5]) / 5 < 0.6
    assert sum(rewards[-5:]) / 5 > 0.8
    assert max(run.series("off_policy/max")) <= 8
    assert all(value < 0.05 for value in run.series("loss/mismatch_kl"))


def test_the_hosted_example_runs_on_several_processes_and_resumes(tiny_model: str, tmp_path: Path):
    """Two trainer ranks, two engines, an evaluation, a checkpoint a step; then one step more."""
    demo = hosted_config(tiny_model, max_steps=3)
    demo.num_train_gpus = demo.num_infer_gpus = 2
    demo.trainer["ckpt"] = {"interval": 1, "keep_last": 2}
    demo.eval_source = {"name": "held-out", "num_examples": 4, "interval": 3, "group_size": 2}
    with started(tmp_path, demo) as run:
        assert_finished(run, run.wait(300))
        engines = [run.log(f"inference-{index}") for index in range(2)]

    assert all("Loaded weights step_2" in log for log in engines)
    assert len(run.series("eval/held-out/reward/mean")) == 2
    assert "Evaluated held-out (Step 3) | Policy v3" in run.log("orchestrator")
    checkpoints = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert checkpoints == ["step_2", "step_3"]
    traces = (tmp_path / "rollouts/step_1/train/all/traces.jsonl").read_text().splitlines()
    assert len(traces) == 64
    assert {"reward", "advantage", "policy", "nodes"} <= set(json.loads(traces[0]))

    demo.max_steps = 4
    demo.eval_source = None
    demo.trainer["resume"] = demo.orchestrator["resume"] = {"step": None, "dir": None}
    with started(tmp_path, demo) as run:
        assert_finished(run, run.wait(300))

    assert [row["step"] for row in run.rows() if "loss/mean" in row] == [1, 2, 3, 4]
    drawn = json.loads((tmp_path / "checkpoints/step_4/orchestrator/progress.json").read_text())
    before = json.loads((tmp_path / "rollouts/step_3/progress.json").read_text())
    assert drawn["num_drawn"]["reverse-text"] > before["num_drawn"]["reverse-text"]


@pytest.mark.parametrize(
    ("component", "reason"),
    [
        ("env-train-arithmetic", "env server of arithmetic at tcp://127.0.0.1:"),
        ("inference-0", "inference at http://127.0.0.1:"),
    ],
)
def test_a_killed_peer_ends_the_orchestrator_with_a_reason(
    component: str, reason: str, tiny_model: str, tmp_path: Path
):
    demo = DemoConfig(model=tiny_model, taskset="arithmetic")
    with started(tmp_path, demo) as run:
        _wait_until(lambda: bool(run.rows()), run)
        os.kill(run.processes[component].pid, signal.SIGKILL)
        killed_at = time.monotonic()
        run.processes["orchestrator"].wait(60)
        took_s = time.monotonic() - killed_at
        code = run.processes["orchestrator"].returncode

    assert code == 1, run.tails()
    assert reason in run.log("orchestrator")
    assert "see its log" in run.log("orchestrator")
    assert "Traceback" not in run.log("orchestrator")
    assert took_s < 20


def test_the_real_null_harness_runs_a_step(tiny_model: str, tmp_path: Path):
    assert shutil.which("uv", path=environment()["PATH"]), "`make setup` puts uv into .venv/bin"
    demo = DemoConfig(model=tiny_model, harness="null", max_steps=1, batch_size=8, group_size=4)
    with started(tmp_path, demo) as run:
        assert_finished(run, run.wait(300))

    traces = (tmp_path / "rollouts/step_1/train/all/traces.jsonl").read_text().splitlines()
    assert {json.loads(line)["error"] for line in traces} == {""}


def _wait_until(condition: Callable[[], bool], run: Run, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, run.tails()
        assert all(process.poll() is None for process in run.processes.values()), run.tails()
        time.sleep(0.1)
