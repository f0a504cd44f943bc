"""The hosted example through `prime train rl.toml` to COMPLETED, and what every subcommand says.

`paddock serve` of this machine with the embedded engine; the demo's three values, fewer steps, and
checkpoints. The same file goes through `paddock train`.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime import models
from tests.e2e.prime_runs import (
    BATCH_SIZE,
    INTERVAL,
    MAX_STEPS,
    PRICE,
    Finished,
    moment,
    open_finished,
)
from tests.engine.sites import Site
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Yield a server whose runs of both clients are over and torn down."""
    with open_finished(tmp_path_factory.mktemp("prime")) as made:
        yield made


def test_the_example_goes_from_queued_to_completed(finished: Finished) -> None:
    assert finished.states[0] in {"QUEUED", "PENDING"}
    assert "RUNNING" in finished.states
    shown = finished.prime_train("get").out
    for line in (
        f"Run {finished.run_id}",
        "Status: COMPLETED",
        "Cluster: local",
        f"Model: {models.TINY_MODEL}",
        "Environments: reverse-text",
        f"Max Steps: {MAX_STEPS}",
        "GPUs: 2",
        f"Batch Size: {BATCH_SIZE}",
        "Rollouts per Example: 8",
        "Max Tokens: 16",
    ):
        assert line in shown, shown
    run = finished.prime_json("get", "-o", "json")["run"]
    assert (run["kind"], run["loss"], run["learning_rate"]) == ("DEDICATED_FULL_FT", "rl", 5e-5)
    times = [moment(run[name]) for name in ("created_at", "started_at", "completed_at")]
    assert times == sorted(times)


def test_lists_have_the_runs_of_both_clients(finished: Finished) -> None:
    table = finished.prime("train", "list").out
    listed = json.loads(finished.prime("train", "list", "-o", "json").out)

    for run_id in (finished.run_id, finished.other_id):
        assert re.search(rf"{run_id} .* COMPLETED .* reverse-text .* {MAX_STEPS} .* 2 ", table)
    assert [run["id"] for run in listed["runs"]] == [finished.other_id, finished.run_id]
    assert listed["total"] == 2


def test_logs_of_every_component_are_read_after_the_teardown(finished: Finished) -> None:
    lines = finished.prime_train("logs").out.splitlines()
    steps = [int(found[1]) for line in lines if (found := re.search(r"SUCCESS Step (\d+) ", line))]

    assert steps == list(range(1, MAX_STEPS + 1))
    assert lines[-1].endswith("SUCCESS Orchestrator finished.")
    trainer = finished.prime_train("logs", "-c", "trainer", "-n", "1").out
    assert trainer.strip().endswith("RL trainer finished!")
    assert "Loaded weights step_1" in finished.prime_train("logs", "-c", "inference").out
    env = finished.prime_train("logs", "-c", "env-server", "--env", "reverse-text").out
    assert "Serving reverse-text at tcp://127.0.0.1:" in env
    found = finished.prime_train("logs", "--search", "Step [12] ", "--regex", "--level", "success")
    assert len(found.out.splitlines()) == 2


def test_metrics_progress_and_distributions_are_of_the_steps(finished: Finished) -> None:
    rows = finished.prime_json("metrics")["metrics"]
    last = finished.prime_json("metrics", "--min-step", str(MAX_STEPS))["metrics"]
    progress = finished.prime_json("progress")
    steps = list(range(1, MAX_STEPS + 1))

    assert [row["step"] for row in rows if "reward/mean" in row] == steps
    assert [row["step"] for row in rows if "loss/mean" in row] == steps
    assert {row["step"] for row in last} == {MAX_STEPS}
    assert progress["latest_step"] == MAX_STEPS
    assert progress["steps_with_samples"] == progress["steps_with_distributions"] == steps
    rewards = finished.prime_json("distributions", "-s", str(MAX_STEPS))
    assert rewards == finished.prime_json("distributions")
    counts = [one["count"] for one in rewards["bins"]]
    mean = sum(one["bin"] * one["count"] for one in rewards["bins"]) / sum(counts)
    assert sum(counts) == BATCH_SIZE
    assert mean == pytest.approx(last[0]["reward/mean"])
    lengths = finished.prime_json("distributions", "-t", "completion_length", "-s", "1")
    assert 0 < max(one["bin"] for one in lengths["bins"]) <= 16
    stale = finished.prime_json("distributions", "-t", "staleness", "-s", "1")
    assert stale == {"bins": [{"bin": 0.0, "end": 0.0, "count": BATCH_SIZE}], "step": 1}


def test_rollouts_are_those_of_a_step(finished: Finished) -> None:
    page = finished.prime_json("rollouts", "-s", "2", "-n", "10", "-p", "7")
    [mean] = [
        row["reward/mean"]
        for row in finished.prime_json("metrics", "--min-step", "2", "--max-step", "2")["metrics"]
        if "reward/mean" in row
    ]
    samples = finished.prime_json("rollouts", "-s", "2")["samples"]

    told = {key: page[key] for key in ("run_id", "total", "page", "limit", "total_pages")}
    assert told == {
        "run_id": finished.run_id,
        "total": BATCH_SIZE,
        "page": 7,
        "limit": 10,
        "total_pages": 7,
    }
    assert page["samples"] == samples[60:]
    scores = [
        sum(one["score"] * one["weight"] for one in row["rewards"].values()) for row in samples
    ]
    assert sum(scores) / len(scores) == pytest.approx(mean)
    assert {row["task"]["data"]["system_prompt"] for row in samples} == {"Reverse the text."}


def test_checkpoints_have_their_size_time_and_place(finished: Finished) -> None:
    table = finished.prime_train("checkpoints").out
    found = finished.prime_json("checkpoints", "-s", "READY", "-o", "json")["checkpoints"]

    assert [one["step"] for one in found] == list(range(INTERVAL, MAX_STEPS + 1, INTERVAL))
    for one in found:
        folder = Path(one["storage_url"].removeprefix("file://"))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        assert one["size_bytes"] == size > 1_000_000
        assert datetime.now(UTC) - moment(one["created_at"]) < timedelta(hours=1)
        assert re.search(rf"{one['id']} .* {one['step']} .* READY .* \d\.\d MB", table), table
    assert [one["uploaded_at"] is not None for one in found] == [False, True]


def test_usage_is_what_two_slots_cost(finished: Finished) -> None:
    run = finished.prime_json("get", "-o", "json")["run"]
    usage = finished.prime_json("usage", "-o", "json")
    rows = finished.prime_json("metrics")["metrics"]
    lived = (moment(run["completed_at"]) - moment(run["created_at"])).total_seconds()

    assert usage["training"]["cost_usd"] == usage["total_cost_usd"]
    assert 0 < usage["total_cost_usd"] <= 2 * lived * float(PRICE) / 3600
    assert usage["training"]["tokens"] == sum(int(row.get("batch/tokens", 0)) for row in rows) > 0
    samples = [
        row
        for step in finished.prime_json("progress")["steps_with_samples"]
        for row in finished.prime_json("rollouts", "-s", str(step))["samples"]
    ]
    for name in ("input_tokens", "output_tokens"):
        assert usage["inference"][name] == sum(row.get(f"num_{name}", 0) for row in samples) > 0
    assert f"${usage['total_cost_usd']:.2f}" in finished.prime_train("usage").out


def test_components_models_gpus_and_volumes_are_listed(finished: Finished) -> None:
    components = finished.prime_train("components").out
    offered = finished.prime("train", "models").out
    gpus = json.loads(finished.prime("train", "gpus", "-o", "json").out)
    volumes = json.loads(finished.prime("volumes", "list", "-o", "json").out)

    assert re.search(r"orchestrator .* COMPLETED", components), components
    assert re.search(r"env-server .* reverse-text .* STOPPED", components), components
    assert re.search(rf"{models.TINY_MODEL} .* CPU ", offered), offered
    assert re.search(rf"CPU .* \${PRICE}\.00 .* available", offered), offered
    assert gpus == {"gpuTypes": ["CPU"]}
    assert volumes == []


def test_the_run_of_paddock_train_reads_alike(finished: Finished) -> None:
    def told(command: str, *words: str) -> Any:  # noqa: ANN401 - as it comes
        return json.loads(finished.paddock("train", command, finished.other_id, *words).out)

    assert told("get", "-o", "json")["run"]["status"] == "COMPLETED"
    assert told("progress")["latest_step"] == MAX_STEPS
    assert {row["step"] for row in told("metrics")["metrics"]} == set(range(1, MAX_STEPS + 1))
    assert told("rollouts", "-s", "1")["total"] == BATCH_SIZE
    assert len(told("checkpoints", "-o", "json")["checkpoints"]) == MAX_STEPS // INTERVAL
    assert told("usage", "-o", "json")["gpu_hours"] > 0
    roles = [one["role"] for one in told("components", "-o", "json")["components"]]
    assert sorted(roles) == ["env", "inference", "orchestrator", "trainer"]
    ended = finished.paddock("train", "logs", finished.other_id).out.splitlines()[-1]
    assert ended.endswith("SUCCESS Orchestrator finished.")


def test_nothing_of_the_runs_is_left_on_the_machine(finished: Finished) -> None:
    site = finished.served.site
    for run_id in (finished.run_id, finished.other_id):
        assert run_id not in site.pulumi("stack", "ls").out
        assert not (site.home / "projects" / run_id).exists()
    wait_for(lambda: not run_leftovers(site), timeout_s=60)


def run_leftovers(site: Site) -> list[str]:
    """Return what is left of runs, while the server itself runs on."""
    return [str(path) for name in ("runs", "private") for path in (site.state / name).glob("*")]
