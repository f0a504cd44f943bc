"""Pause, resume, restart and the spending ceiling, of runs that really train.

`paddock serve` of this machine with the embedded engine. One run goes through three attempts by the
real `prime` client; beside it another, of `paddock train`, comes to its ceiling.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from runtime import models
from runtime.artifacts import RunDirectory
from runtime.checkpoints import checkpoint_steps, last_checkpoint_step
from runtime.claims import read_claims
from runtime.commands.models import make_tiny_model
from runtime.observe.local import run_processes
from tests.e2e.prime_runs import CHANGES, is_torn_down, paddock, until_over, words
from tests.engine.sites import ROOT, make_site
from tests.runtime.control.operating.served import Served, dispatch, read_run, serving
from tests.runtime.control.prime.client import Prime, prime_program
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

MAX_STEPS, ENDLESS, INTERVAL = 70, 100_000, 5
PRICE, CREDIT, NUM_SLOTS = "36", "1000", 2
"""Dollars an hour of a slot: a second of a run's two is two cents."""

CEILING = "0.30"
LIMIT_S = 600.0
LOOK_S = 0.2
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Paused:
    """What there was of the run while it was paused."""

    checkpoint: int
    left: list[object]
    usages: list[dict[str, Any]]
    trainer_log: str


@dataclass(frozen=True, kw_only=True)
class Lived:
    """A server whose two runs are over and torn down."""

    served: Served
    prime: Prime
    run_id: str
    capped_id: str
    paused: Paused
    trainer_log_of_third: str

    @property
    def directory(self) -> RunDirectory:
        """Return the directory of the run of three attempts."""
        return self.served.site.local_run(self.run_id).directory

    def said(self, command: str, *flags: str) -> str:
        """Return what the client prints about that run."""
        return said(self.prime, command, self.run_id, *flags)

    def steps(self, attempt: int, metric: str) -> list[int]:
        """Return the steps of which an attempt wrote a metric, in the order of writing."""
        rows = [json.loads(line) for line in self.directory.metrics.read_text().splitlines()]
        return [row["step"] for row in rows if row["attempt"] == attempt and metric in row]

    def resumed_from(self) -> list[int]:
        """Return the checkpoints that the trainers of the attempts loaded."""
        log = self.said("logs", "-c", "trainer", "-n", "5000")
        return [int(step) for step in re.findall(r"Resumed from .*/checkpoints/step_(\d+)", log)]

    def weights(self, step: int) -> Weights:
        """Return the weights of a checkpoint of the run."""
        return load_file(self.directory.checkpoints / f"step_{step}/trainer/model.safetensors")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Yield a server whose runs have been through all this."""
    folder = tmp_path_factory.mktemp("attempts")
    site = make_site(folder, extra={"PADDOCK_PREPARE": ""})
    models.add_model(models.TINY_MODEL, make_tiny_model(), site.environment["PADDOCK_CACHE"])
    site.pulumi("config", "set", "paddock:priceUsdPerHour", PRICE, "-s", site.cluster)
    site.pulumi("up", "-s", site.cluster)
    try:
        with serving(site) as served:
            prime = served.client("ada", program=prime_program())
            site.paddock("wallet", "credit", "ada", CREDIT)
            yield live(served, prime, folder)
        site.assert_nothing_left()
    finally:
        site.kill_everything()


def live(served: Served, prime: Prime, folder: Path) -> Lived:
    """Pause, resume and restart one run until it completes, beside one with a ceiling."""
    run_id = dispatch(prime, write_toml(folder / "rl.toml", MAX_STEPS))
    endless = write_toml(folder / "endless.toml", ENDLESS)
    made = paddock(served, prime, "train", str(endless), "--max-spend", CEILING, "-o", "json")
    capped_id = json.loads(made.out)["run"]["runId"]
    checkpoints = served.site.local_run(run_id).directory.checkpoints

    wait_for(lambda: checkpoint_steps(checkpoints), timeout_s=LIMIT_S)
    until(prime, run_id, "RUNNING", attempt=1)
    assert "Status: PAUSING" in said(prime, "pause", run_id, "--force")
    until(prime, run_id, "PAUSED", attempt=1)
    paused = look_at_paused(served, prime, run_id)
    said(prime, "resume", run_id, "-y")
    second = paused.checkpoint + INTERVAL
    wait_for(lambda: second in checkpoint_steps(checkpoints), timeout_s=LIMIT_S)
    until(prime, run_id, "RUNNING", attempt=2)
    assert "restarting from checkpoint" in said(prime, "restart", run_id, "--force")
    until(prime, run_id, "RUNNING", attempt=3)
    log = said(prime, "logs", run_id, "-c", "trainer", "-n", "5000")
    for one, state in ((run_id, "COMPLETED"), (capped_id, "STOPPED")):
        assert until_over(prime, one)[-1] == state, words(served.site, served, one)
        wait_for(lambda one=one: is_torn_down(prime, one), timeout_s=LIMIT_S)
    return Lived(
        served=served,
        prime=prime,
        run_id=run_id,
        capped_id=capped_id,
        paused=paused,
        trainer_log_of_third=log,
    )


def write_toml(path: Path, max_steps: int) -> Path:
    """Write the hosted service's example with the demo's values, smaller steps and checkpoints."""
    text = (ROOT / "examples" / "reverse-text.toml").read_text()
    small = {"max_steps = 100": f"max_steps = {max_steps}", "batch_size = 64": "batch_size = 16"}
    for old, new in {**CHANGES, **small}.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(f"{text}\n[ckpt]\ninterval = {INTERVAL}\n")
    return path


def look_at_paused(served: Served, prime: Prime, run_id: str) -> Paused:
    """Return what is left of a run that says that it is PAUSED."""
    run = served.site.local_run(run_id)
    claims = [one for one in read_claims(served.site.state) if one.run_id == run_id]
    left = [*run_processes(run), *claims]
    checkpoint = last_checkpoint_step(run.directory.checkpoints)
    assert checkpoint is not None
    first = usage_of(served, prime, run_id)
    log = said(prime, "logs", run_id, "-c", "trainer", "-n", "5000")
    usages = [first, usage_of(served, prime, run_id)]
    return Paused(checkpoint=checkpoint, left=left, usages=usages, trainer_log=log)


def usage_of(served: Served, prime: Prime, run_id: str) -> dict[str, Any]:
    """Return what a run has used."""
    return json.loads(paddock(served, prime, "train", "usage", run_id, "-o", "json").out)


def said(prime: Prime, command: str, run_id: str, *flags: str) -> str:
    """Return what a command of `prime train` printed, which has to succeed."""
    found = prime("train", command, run_id, *flags)
    assert found.code == 0, found.out + found.err
    return found.out


def until(prime: Prime, run_id: str, state: str, *, attempt: int) -> None:
    """Wait until an attempt of a run is in a state."""

    def is_there() -> bool:
        time.sleep(LOOK_S)
        run = read_run(prime, run_id)
        assert run["status"] not in {"FAILED", "COMPLETED"}, run
        return (run["status"], run["attempt"]) == (state, attempt)

    wait_for(is_there, timeout_s=LIMIT_S)


def distance(one: Weights, other: Weights) -> float:
    """Return how far two sets of weights are apart."""
    squares = [(one[name].float() - other[name].float()).square().sum().item() for name in one]
    return sum(squares) ** 0.5


def test_nothing_of_a_paused_run_runs_or_costs(lived: Lived) -> None:
    first, later = lived.paused.usages

    assert lived.paused.left == []
    assert lived.paused.checkpoint % INTERVAL == 0
    assert lived.paused.checkpoint > INTERVAL, "the pause waited for one more checkpoint"
    assert first["gpu_hours"] == later["gpu_hours"] > 0
    assert first["total_cost_microusd"] == later["total_cost_microusd"]


def test_each_attempt_goes_on_after_the_checkpoint_that_it_loaded(lived: Lived) -> None:
    paused, restarted = lived.resumed_from()
    firsts = [1, paused + 1, restarted + 1]

    assert paused == lived.paused.checkpoint
    assert restarted % INTERVAL == 0
    assert restarted > paused
    for metric in ("loss/mean", "reward/mean"):
        taken = [lived.steps(attempt, metric) for attempt in (1, 2, 3)]
        assert taken == [
            list(range(first, steps[-1] + 1)) for first, steps in zip(firsts, taken, strict=True)
        ]
        assert taken[0][-1] >= paused
        assert taken[1][-1] >= restarted
        assert taken[2][-1] == MAX_STEPS
    # it was the last one: a step's row comes just before its checkpoint
    assert lived.steps(2, "loss/mean")[-1] <= restarted + INTERVAL
    served = re.findall(r"Policy v(\d+) is served", lived.said("logs", "-n", "5000"))
    assert served == ["0", str(paused), str(restarted)]


def test_a_step_that_was_taken_again_is_told_and_counted_once(lived: Lived) -> None:
    rows = json.loads(lived.said("metrics"))["metrics"]
    used = usage_of(lived.served, lived.prime, lived.run_id)
    progress = json.loads(lived.said("progress"))
    every_step = list(range(1, MAX_STEPS + 1))

    for metric in ("reward/mean", "loss/mean"):
        assert [row["step"] for row in rows if metric in row] == every_step
    assert used["training"]["tokens"] == sum(int(row.get("batch/tokens", 0)) for row in rows) > 0
    assert progress["latest_step"] == MAX_STEPS
    assert progress["steps_with_samples"] == every_step


def test_a_resume_loads_weights_and_optimizer(lived: Lived) -> None:
    folder = models.find_model(models.TINY_MODEL, lived.served.site.environment["PADDOCK_CACHE"])
    assert folder is not None
    paused, after = lived.paused.checkpoint, lived.paused.checkpoint + INTERVAL
    last = lived.directory.checkpoints / f"step_{MAX_STEPS}/trainer/state.pt"
    counts = torch.load(last, weights_only=True)["optimizer"]["state"]

    weights = lived.weights(after)
    model = load_file(folder / "model.safetensors")
    assert 0 < distance(weights, lived.weights(paused)) < distance(weights, model)
    assert {int(one["step"]) for one in counts.values()} == {MAX_STEPS}


def test_usage_is_the_time_for_which_slots_were_held(lived: Lived) -> None:
    times = lived.served.site.record(lived.run_id).times
    began = [one.time for one in times if one.state == "PENDING"]
    [paused_at] = [one.time for one in times if one.reason == "paused"]
    # a restart keeps its slots from one attempt to the next
    held = (paused_at - began[0]) + (times[-1].time - began[1])
    used = usage_of(lived.served, lived.prime, lived.run_id)

    assert [one.attempt for one in times if one.state == "PENDING"] == [1, 2, 3]
    assert used["gpu_hours"] * 3600 == pytest.approx(NUM_SLOTS * held.total_seconds(), abs=1e-3)
    cost = held.total_seconds() * NUM_SLOTS * float(PRICE) / 3600
    assert used["total_cost_usd"] == pytest.approx(cost, abs=1e-5)


def test_logs_of_all_attempts_are_read_before_and_after_the_teardown(lived: Lived) -> None:
    log = lived.said("logs", "-c", "trainer", "-n", "5000")
    steps = re.findall(r"SUCCESS Step (\d+) ", log)

    assert "Resumed from" not in lived.paused.trainer_log
    assert lived.trainer_log_of_third.startswith(lived.paused.trainer_log)
    assert log.startswith(lived.trainer_log_of_third)
    written = [step for attempt in (1, 2, 3) for step in lived.steps(attempt, "loss/mean")]
    assert [int(step) for step in steps] == written
    for component in ("orchestrator", "inference"):
        attempts = lived.said("logs", "-c", component, "-n", "5000")
        assert len(re.findall(r"Policy v\d+ is served|Serving .* at http", attempts)) == 3


def test_a_run_at_its_ceiling_ends_after_a_last_checkpoint(lived: Lived) -> None:
    run = read_run(lived.prime, lived.capped_id)
    listed = said(lived.prime, "checkpoints", lived.capped_id, "-s", "READY", "-o", "json")
    found = json.loads(listed)["checkpoints"]
    rows = json.loads(said(lived.prime, "metrics", lived.capped_id))["metrics"]
    waited = rf"{lived.capped_id} attempt 1 PAUSING waits for a checkpoint(?: after step (\d+))?"
    [before] = re.findall(waited, "".join(lived.served.lines))
    used = usage_of(lived.served, lived.prime, lived.capped_id)

    assert (run["status"], run["capture"], run["teardown"]) == ("STOPPED", "done", "done")
    assert run["reason"].startswith(f"stopped at its ceiling of ${CEILING}: it has cost $")
    last = max(one["step"] for one in found)
    assert last > int(before or 0)
    newest = next(one for one in found if one["step"] == last)
    assert newest["uploaded_at"] is not None
    assert Path(newest["storage_url"].removeprefix("file://")).is_dir()
    losses = [row["step"] for row in rows if "loss/mean" in row]
    assert losses == list(range(1, len(losses) + 1))
    assert last <= losses[-1] <= last + INTERVAL
    assert used["total_cost_usd"] >= float(CEILING)
