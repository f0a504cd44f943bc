"""Pause, resume, restart and the spending ceiling of a run in real pods, by `paddock serve`.

One run goes through three attempts and ends at its ceiling; the tests look at what there was.
`tests/e2e/test_attempts.py` shows the same of processes, and that weights are loaded.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from runtime.control.steps import PAUSE_LIMIT_S
from runtime.control.store import runs
from runtime.control.store.store import open_store
from runtime.naming import LABEL_ATTEMPT
from runtime.states import RunState
from tests.cluster.canaries import in_object, value_is_nowhere
from tests.cluster.planes import END_S, Plane, nothing_is_left, open_plane, write_toml
from tests.cluster.run_files import small_demo
from tests.cluster.runs import GPU, START_S
from tests.cluster.test_failures import saved_steps
from tests.engine.sites import Site
from tests.runtime.control.operating.served import read_run
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

INTERVAL = 2
CHANGED, KEPT = "CANARY_CHANGED", "CANARY_KEPT"
OLD, NEW, SAME = (f"canary-7d20c4e1-{name}" for name in ("old", "new", "same"))
GROUPS = ("trainer", "inference", "orchestrator", "env-train-reverse-text")
LARGE_CEILING = "500"
PAUSED_S = PAUSE_LIMIT_S / 2
"""A pause that waits for no new checkpoint lasts twice as long."""

WHILE_PAUSED_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What an attempt showed once it was RUNNING and had a checkpoint of its own."""

    number: int
    labels: set[str]
    values: list[dict[str, str]]
    holders: dict[str, list[str]]


@dataclass(frozen=True, kw_only=True)
class Paused:
    """What there was of the run while it was PAUSED."""

    pods: list[dict[str, Any]]
    saved: int
    usages: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Lived:
    """A run that is over and torn down."""

    plane: Plane
    run_id: str
    attempts: list[Attempt]
    paused: Paused
    ceiling: int

    def steps(self, attempt: int, metric: str) -> list[int]:
        """Return the steps of which an attempt wrote a metric, in the order of writing."""
        # in pods the trainer's rows are in a file of its own
        files = self.plane.lab.folder(self.run_id).glob("metrics*.jsonl")
        rows = [json.loads(line) for one in files for line in one.read_text().splitlines()]
        return [row["step"] for row in rows if row["attempt"] == attempt and metric in row]

    def loaded(self) -> list[int]:
        """Return the checkpoints that the trainers of the attempts loaded."""
        log = "\n".join(self.plane.logs(self.run_id, "-c", "trainer"))
        return [int(step) for step in re.findall(r"Resumed from .*/checkpoints/step_(\d+)", log)]

    def step_before_pause(self, attempt: int) -> int:
        """Return the newest checkpoint when an attempt began to pause, as the server says it."""
        words = rf"{self.run_id} attempt {attempt} PAUSING waits for a checkpoint after step (\d+)"
        [step] = re.findall(words, "".join(self.plane.served.lines))
        return int(step)


@pytest.fixture(scope="module")
def lived(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Yield a server whose run has been through all this."""
    with open_plane(testbed, tmp_path_factory.mktemp("attempts")) as plane:
        yield live(plane)


def live(plane: Plane) -> Lived:
    """Pause, resume and restart a run, then let it come to its ceiling."""
    run_id = dispatched(plane)
    first = look(plane, run_id)
    assert "Status: PAUSING" in said(plane, "pause", run_id)
    plane.until(run_id, RunState.PAUSED, timeout_s=PAUSED_S)
    paused = look_at_paused(plane, run_id)
    plane.paddock("train", "resume", run_id, "-e", CHANGED, **{CHANGED: NEW})
    second = look(plane, run_id)
    assert "restarting from checkpoint" in said(plane, "restart", run_id)
    third = look(plane, run_id)
    ceiling = lower_ceiling(plane, run_id)
    plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
    plane.until_torn_down(run_id)
    return Lived(
        plane=plane,
        run_id=run_id,
        attempts=[first, second, third],
        paused=paused,
        ceiling=ceiling,
    )


def dispatched(plane: Plane) -> str:
    """Dispatch a run that goes on until it is ended, with two secrets and a ceiling."""
    text = small_demo(max_steps=5000, lr="5e-9", interval=INTERVAL)
    toml = str(write_toml(plane, "attempts.toml", text))
    words = ("--gpu-type", GPU, "-e", CHANGED, "-e", KEPT, "--max-spend", LARGE_CEILING)
    made = plane.paddock("train", toml, *words, "-o", "json", **{CHANGED: OLD, KEPT: SAME})
    return json.loads(made.out)["run"]["runId"]


def said(plane: Plane, command: str, run_id: str) -> str:
    """Return what `prime train` printed of an intent, which has to succeed."""
    found = plane.prime("train", command, run_id, "--force")
    assert found.code == 0, found.out + found.err
    return found.out


def look(plane: Plane, run_id: str) -> Attempt:
    """Look at an attempt that is RUNNING and has written a checkpoint meanwhile."""
    lab = plane.lab
    plane.until(run_id, RunState.RUNNING, timeout_s=START_S)
    before = newest(plane, run_id)  # a restart's earlier attempt writes until its pods are gone
    wait_for(lambda: newest(plane, run_id) > before, timeout_s=START_S)
    secrets = lab.testbed.get("secrets", "--namespace", lab.namespace)["items"]
    return Attempt(
        number=read_run(plane.prime, run_id)["attempt"],
        labels={pod["metadata"]["labels"][LABEL_ATTEMPT] for pod in lab.pods(run_id)},
        values=[values_in(plane, run_id, group) for group in GROUPS],
        holders={
            value: [one["metadata"]["name"] for one in secrets if in_object(one, value)]
            for value in (OLD, NEW, SAME)
        },
    )


def newest(plane: Plane, run_id: str) -> int:
    """Return the newest checkpoint of both halves on the volume, 0 while there is none."""
    return max(saved_steps(plane.lab.folder(run_id)), default=0)


def values_in(plane: Plane, run_id: str, group: str) -> dict[str, str]:
    """Return the secrets that a pod's container has in its environment."""
    names = (CHANGED, KEPT)
    program = f"import json, os; print(json.dumps([os.environ.get(k) for k in {names}]))"
    found = json.loads(plane.lab.execute(plane.lab.pod(run_id, group), program))
    return dict(zip(names, found, strict=True))


def look_at_paused(plane: Plane, run_id: str) -> Paused:
    """Return what is left of a run that says that it is PAUSED, and what it costs meanwhile."""
    pods = plane.lab.pods(run_id)
    usages = [plane.found("usage", run_id)]
    time.sleep(WHILE_PAUSED_S)
    usages.append(plane.found("usage", run_id))
    return Paused(pods=pods, saved=newest(plane, run_id), usages=usages)


def lower_ceiling(plane: Plane, run_id: str) -> int:
    """Lower a run's ceiling to what it has cost, and return it.

    Its user cannot; one that is given at the dispatch is met before the pods run where they start
    slowly, and such a run has no checkpoint to write.
    """
    cost = plane.found("usage", run_id)["total_cost_microusd"]
    wait_for(lambda: is_ceiling(plane.lab.site, run_id, cost))
    return cost


def is_ceiling(site: Site, run_id: str, cost: int) -> bool:
    """Write the ceiling into the stored run, unless the server wrote it at this moment."""
    store = open_store(f"sqlite:///{site.home / 'control.db'}")
    try:
        with store.write() as tx:
            run = runs.get_run(tx, run_id)
            assert run is not None
            assert run.max_spend_microusd == int(LARGE_CEILING) * 1_000_000
            changed = runs.compare_and_set(tx, run_id, run.version, max_spend_microusd=cost)
            return changed is not None
    finally:
        store.close()


def test_a_pause_waits_for_a_checkpoint_of_both_halves_and_leaves_no_pod(lived: Lived) -> None:
    before = lived.step_before_pause(1)

    assert before >= INTERVAL
    assert lived.paused.saved > before
    assert lived.paused.pods == []


def test_nothing_is_billed_while_a_run_is_paused(lived: Lived) -> None:
    first, later = lived.paused.usages

    assert first["gpu_hours"] == later["gpu_hours"] > 0
    assert first["total_cost_microusd"] == later["total_cost_microusd"] > 0


def test_each_attempt_has_pods_of_its_own_only(lived: Lived) -> None:
    assert [one.number for one in lived.attempts] == [1, 2, 3]
    assert [one.labels for one in lived.attempts] == [{"1"}, {"2"}, {"3"}]


def test_a_resume_gives_the_pods_a_new_secret_beside_those_that_stay(lived: Lived) -> None:
    secret = f"{lived.run_id}-{{}}-env"
    first, *later = lived.attempts

    assert first.values == [{CHANGED: OLD, KEPT: SAME}] * len(GROUPS)
    assert first.holders == {OLD: [secret.format(1)], NEW: [], SAME: [secret.format(1)]}
    for one in later:
        holder = [secret.format(one.number)]
        assert one.values == [{CHANGED: NEW, KEPT: SAME}] * len(GROUPS)
        assert one.holders == {OLD: [], NEW: holder, SAME: holder}
    for value in (OLD, NEW, SAME):
        value_is_nowhere(lived.plane, value)


def test_each_attempt_goes_on_after_the_checkpoint_that_it_loaded(lived: Lived) -> None:
    resumed, restarted = lived.loaded()

    assert resumed == lived.paused.saved
    assert restarted > resumed
    assert (resumed % INTERVAL, restarted % INTERVAL) == (0, 0)
    for metric in ("loss/mean", "reward/mean"):
        for attempt, loaded in ((1, 0), (2, resumed), (3, restarted)):
            steps = lived.steps(attempt, metric)
            assert steps == list(range(loaded + 1, steps[-1] + 1))
    # each was the last one: a step's row comes just before its checkpoint
    assert resumed <= lived.steps(1, "loss/mean")[-1] <= resumed + INTERVAL
    assert restarted <= lived.steps(2, "loss/mean")[-1] <= restarted + INTERVAL


def test_a_run_at_its_ceiling_ends_after_a_last_checkpoint(lived: Lived) -> None:
    plane, run_id = lived.plane, lived.run_id
    run, usage = read_run(plane.prime, run_id), plane.found("usage", run_id)
    reason = f"stopped at its ceiling of ${lived.ceiling // 10_000 / 100:.2f}: it has cost $"

    assert run["status"] == "STOPPED"
    assert run["reason"].startswith(reason)
    assert newest(plane, run_id) > lived.step_before_pause(3)
    assert usage["total_cost_microusd"] > lived.ceiling
    # it was paused first, which is what the record of its pods says
    assert plane.lab.record(run_id).reason == "paused"
    nothing_is_left(plane, run_id, RunState.STOPPED)
