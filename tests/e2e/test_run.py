"""Whole runs of the embedded engine through `pulumi` as typed: completed, killed, resumed."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import homes
from runtime.artifacts import RunDirectory
from runtime.checkpoints import checkpoint_steps
from runtime.control.dispatch import new_stack
from runtime.models import TINY_MODEL, find_model
from runtime.observe.local import read_components, run_processes
from runtime.record import read_record
from runtime.states import RunState
from tests.e2e.conftest import CHECKOUT, Desk

pytestmark = pytest.mark.e2e

HOSTED_MODEL = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"


def example(**replaced: str) -> str:
    text = (
        (CHECKOUT / "examples" / "reverse-text.toml").read_text().replace(HOSTED_MODEL, TINY_MODEL)
    )
    for key, value in replaced.items():
        old = next(line for line in text.splitlines() if line.startswith(f"{key} ="))
        text = text.replace(old, f"{key} = {value}")
    return text


def start(desk: Desk, run_id: str, text: str, *flags: str) -> None:
    made = desk.paddock("stack", "new", run_id, desk.write(f"{run_id}.toml", text), *flags)
    assert made.returncode == 0, made.stderr
    up = desk.pulumi("up", "-s", run_id, "--yes", "--skip-preview")
    assert up.returncode == 0, up.stdout + up.stderr


def test_the_hosted_example_completes_with_nothing_replaced_but_the_model(desk: Desk) -> None:
    start(desk, "hosted-run", example(max_steps="3"))

    waited = desk.paddock("wait", "hosted-run", "--destroy")

    assert waited.returncode == 0, waited.stdout + waited.stderr
    assert "hosted-run COMPLETED" in waited.stdout
    run = desk.locate("hosted-run")
    assert not run_processes(run)
    logs = desk.paddock("logs", "hosted-run", "--search", "Orchestrator finished.")
    assert "Orchestrator finished." in logs.stdout


def test_a_killed_inference_fails_the_run_by_name_and_destroy_leaves_nothing(desk: Desk) -> None:
    start(desk, "kill-run", example())
    run = desk.locate("kill-run")
    inference = until_running(run.directory, "inference-0")

    os.kill(inference, signal.SIGKILL)
    killed_at = time.monotonic()
    waited = desk.paddock("wait", "kill-run")

    assert time.monotonic() - killed_at < 60
    assert waited.returncode == 1
    assert "kill-run FAILED: inference-0" in waited.stdout
    assert "SIGKILL" in waited.stdout
    destroyed = desk.pulumi("destroy", "-s", "kill-run", "--yes", "--skip-preview")
    assert destroyed.returncode == 0, destroyed.stdout + destroyed.stderr
    assert not run_processes(run)


def test_a_resumed_run_goes_on_from_its_last_checkpoint(desk: Desk) -> None:
    text = example(max_steps="6", max_completion_tokens="16")
    start(desk, "resume-run", f"{text}\n[ckpt]\ninterval = 1\nkeep_last = 2\n")
    run = desk.locate("resume-run")
    until(lambda: len(checkpoint_steps(run.directory.checkpoints)) >= 1, "a checkpoint")
    os.kill(until_running(run.directory, "trainer-0"), signal.SIGKILL)
    assert desk.paddock("wait", "resume-run").returncode == 1
    resumed_from = checkpoint_steps(run.directory.checkpoints)[-1]

    assert desk.paddock("resume", "resume-run").returncode == 0
    waited = desk.paddock("wait", "resume-run", "--destroy")

    assert waited.returncode == 0, waited.stdout + waited.stderr
    rows = [json.loads(line) for line in run.directory.metrics.read_text().splitlines()]
    second = [row["step"] for row in rows if row["attempt"] == 2 and "loss/mean" in row]
    assert second == list(range(resumed_from + 1, 7))
    assert checkpoint_steps(run.directory.checkpoints) == [5, 6]
    record = read_record(run.directory.record)
    assert record is not None
    assert (record.state, record.attempt) == (RunState.COMPLETED, 2)


def test_a_second_run_starts_with_the_checkpoint_of_the_first(desk: Desk) -> None:
    ckpt = "\n[ckpt]\ninterval = 1\n"
    start(desk, "first-run", example(max_steps="2", max_completion_tokens="16") + ckpt)
    assert desk.paddock("wait", "first-run", "--destroy").returncode == 0
    longer = example(max_steps="3", max_completion_tokens="16") + ckpt

    again = desk.write("again.toml", example(max_steps="2") + ckpt)
    named = desk.paddock("stack", "new", "again-run", again, "--resume-from", "first-run")
    refused = desk.pulumi("preview", "-s", "again-run")
    start(desk, "second-run", longer, "--resume-from", "first-run")
    waited = desk.paddock("wait", "second-run", "--destroy")

    assert named.returncode == 0, named.stderr
    assert refused.returncode != 0
    assert "raise max_steps" in refused.stdout + refused.stderr
    assert waited.returncode == 0, waited.stdout + waited.stderr
    second = desk.locate("second-run").directory
    rows = [json.loads(line) for line in second.metrics.read_text().splitlines()]
    assert [row["step"] for row in rows if "loss/mean" in row] == [3]
    assert checkpoint_steps(second.checkpoints) == [2, 3]
    assert checkpoint_steps(desk.locate("first-run").directory.checkpoints) == [1, 2]


def test_a_run_loads_its_model_from_a_volume_and_leaves_its_checkpoints_there(
    desk: Desk, tmp_path: Path
) -> None:
    settings = {"kind": "volume", "cluster": "local", "path": f"{tmp_path}/vol"}
    new_stack(desk.project, "vol", settings)
    assert desk.pulumi("up", "-s", "vol", "--yes", "--skip-preview").returncode == 0

    tiny = find_model(TINY_MODEL, str(homes.cache_path()))
    assert tiny is not None
    shutil.copytree(tiny, tmp_path / "vol/models/tiny")
    text = example(max_steps="1", max_completion_tokens="16") + "\n[ckpt]\n"
    text = text.replace(TINY_MODEL, "/volume/models/tiny")
    start(desk, "vol-run", text, "--volume", "vol")
    waited = desk.paddock("wait", "vol-run", "--destroy")

    assert waited.returncode == 0, waited.stdout + waited.stderr
    assert (tmp_path / "vol/runs/vol-run/checkpoints/step_1/trainer").is_dir()
    refused = desk.pulumi("destroy", "-s", "vol", "--yes", "--skip-preview")
    assert refused.returncode != 0
    assert "protect" in refused.stdout + refused.stderr
    assert (tmp_path / "vol/runs/vol-run/checkpoints/step_1").is_dir()
    desk.pulumi("state", "unprotect", "--all", "-s", "vol", "--yes")
    assert desk.pulumi("destroy", "-s", "vol", "--yes", "--skip-preview").returncode == 0
    assert desk.pulumi("stack", "rm", "vol", "--yes").returncode == 0


def until_running(directory: RunDirectory, name: str) -> int:
    """Wait until a component's process runs, and return its pid."""
    found: list[int] = []

    def look() -> bool:
        for one in read_components(directory, 1):
            if one.name == name and one.process is not None:
                found.append(one.process.pid)
        return bool(found)

    until(look, f"{name} to run")
    return found[0]


def until(is_so: Callable[[], bool], what: str, *, deadline_s: float = 180.0) -> None:
    """Wait for a condition, with a deadline."""
    end = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < end, f"waited {deadline_s:.0f} s for {what}"
        time.sleep(0.1)
