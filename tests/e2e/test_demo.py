"""`make demo`'s main job, as typed: a run learns, is kept, and leaves nothing behind."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from runtime.naming import ENV_RUN_MARK
from runtime.processes import marked_processes
from tests.e2e.conftest import CHECKOUT, PADDOCK

pytestmark = pytest.mark.e2e


def test_the_demo_learns_and_leaves_only_its_run_directory(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    environ["PADDOCK_HOME"] = str(tmp_path / "home")

    done = subprocess.run(
        [str(PADDOCK), "demo"],
        cwd=CHECKOUT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    replaced = [line for line in done.stdout.splitlines() if line.startswith("-") and "=" in line]
    assert [line.split()[0] for line in replaced] == ["-name", "-lr", "-max_completion_tokens"]
    for state in ("QUEUED", "PENDING", "CREATING", "RUNNING", "COMPLETED"):
        assert state in done.stderr
    found = re.search(r"(\d+) steps, mean reward ([\d.]+) -> ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    steps, first, last = int(found[1]), float(found[2]), float(found[3])
    assert steps == 100
    assert 0.25 < first < 0.6
    assert last > 0.8
    assert "pulumi stack ls: empty" in done.stdout
    told = re.search(r"Kept: (\S+)", done.stdout)
    assert told is not None, done.stdout
    run_path = Path(told[1])
    for kept in ("configs/rl.toml", "metrics.jsonl", "rollouts", "checkpoints/step_100"):
        assert (run_path / kept).exists(), kept
    logs = {path.name for path in (run_path / "logs/attempt_1").rglob("*.log")}
    assert {"trainer.log", "inference.log", "orchestrator.log", "reverse-text.log"} <= logs
    orchestrator = (run_path / "configs/orchestrator.json").read_text()
    ports = {int(port) for port in re.findall(r"//127\.0\.0\.1:(\d+)", orchestrator)}
    assert len(ports) == 2
    assert not [port for port in ports if is_listened_on(port)]
    run_id = run_path.name.encode()
    mark = ENV_RUN_MARK.encode()
    assert not marked_processes(lambda env: run_id in env.get(mark, b""))


def is_listened_on(port: int) -> bool:
    """Tell whether a connection to a port of this machine is accepted."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
