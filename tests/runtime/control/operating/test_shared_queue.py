"""Two servers of one host take runs through a machine on which three fit; all but the work is real.

Runs sleep instead of training. Servers, Postgres, engine, supervisors and slots are real.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.control.bucket_store import BucketStore
from runtime.control.lease_keeper import SCHEDULER
from runtime.control.operations import OperationKind, OperationState
from runtime.control.projects import run_folder
from runtime.processes import session_processes
from runtime.states import RunState
from tests.engine.sites import COMPONENTS
from tests.runtime.control.operating.served import Served, serving
from tests.runtime.control.operating.shared_queue import (
    CAPACITY,
    Life,
    SharedQueue,
    shared_queue,
    watching_slots,
)
from tests.runtime.control.reading.s3 import BUCKET
from tests.waiting import wait_for

pytestmark = pytest.mark.control

SLEEP_S = 3.0
PROMOTION_S = 60.0
"""Ten are promised, and measured on a machine that does nothing else."""

PASS_S = 5.0
"""How old what a promotion is decided from may be on a busy machine."""

NUM_AFTER_KILL = 4

RUN_S = 120.0
"""What a run may take of a machine that does much else, on the average."""

LIFE = "make up destroy remove"
OF_SERVERS = {".server", ".stacks"}


@pytest.fixture
def queue(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedQueue]:
    """Yield a machine for three runs, without a server."""
    with shared_queue(tmp_path / "host", postgres_url) as made:
        for name, value in made.site.environment.items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        yield made


@contextmanager
def two_servers(queue: SharedQueue) -> Iterator[tuple[Served, Served]]:
    """Run two servers that have half of the runs each."""
    with serving(queue.site) as first, serving(queue.site) as second:
        assert first.url
        assert second.url
        queue.share()
        yield first, second


@pytest.mark.parametrize("num_runs", [6, pytest.param(20, marks=pytest.mark.long)])
def test_two_servers_take_runs_through_three_places(queue: SharedQueue, num_runs: int) -> None:
    with two_servers(queue) as servers, watching_slots(queue.site.state) as slots:
        began = time.monotonic()
        run_ids = [queue.dispatch(servers[n % 2], n, SLEEP_S) for n in range(num_runs)]
        queue.until_settled(run_ids, timeout_s=RUN_S * num_runs)
        took_s = time.monotonic() - began
        holders = {queue.holder_of(one) for one in servers}
    assert [queue.run(run_id).state for run_id in run_ids] == [RunState.COMPLETED] * num_runs
    lives = [queue.life(run_id) for run_id in run_ids]
    waits = latencies(lives)
    print(
        f"{num_runs} runs on {CAPACITY} places, two servers: {took_s:.1f} s; promoted after "
        f"{max(waits):.2f} s at the most, {sorted(waits)[num_runs // 2]:.2f} s in the middle"
    )
    assert overtaken(lives) == []
    for index, one in enumerate(lives):
        earlier = lives[: max(0, index + 1 - CAPACITY)]
        assert all(each.began < one.began for each in earlier), one
    assert slots.most == CAPACITY
    assert most_at_once(lives) <= CAPACITY
    assert slots.doubly == []
    assert max(waits) < PROMOTION_S
    once = dict.fromkeys(COMPONENTS, 1)
    assert [queue.starts(run_id) for run_id in run_ids] == [once] * num_runs
    assert [queue.operations(run_id) for run_id in run_ids] == [LIFE] * num_runs
    performed = queue.performed()
    assert {one.holder for one in performed} == holders
    assert [one for one in performed if one.state == "failed"] == []
    said = [line for served in servers for line in served.lines]
    assert [line for line in said if '"level": "ERROR"' in line] == []
    nothing_is_left(queue)


def test_a_server_that_is_killed_leaves_the_other_no_run_to_start_again(
    queue: SharedQueue,
) -> None:
    with two_servers(queue) as servers, watching_slots(queue.site.state) as slots:
        promoter = queue.leases()[SCHEDULER]
        victim, other = sorted(servers, key=lambda one: queue.holder_of(one) != promoter)
        run_ids: list[str] = []
        theirs: list[str] = []
        while len(run_ids) < NUM_AFTER_KILL or not theirs:
            run_ids.append(queue.dispatch(other, len(run_ids), SLEEP_S))
            theirs = [run_id for run_id in run_ids if queue.is_of(victim, run_id)]
        in_up = wait_for(lambda: runs_in_up(queue, theirs), timeout_s=RUN_S)
        os.kill(victim.process.pid, signal.SIGKILL)
        queue.until_settled(run_ids, timeout_s=RUN_S * len(run_ids))
    lives = [queue.life(run_id) for run_id in run_ids]
    waits = latencies(lives)
    print(
        f"{len(run_ids)} runs, {len(in_up)} in an `up` when their server was killed; promoted "
        f"after {max(waits):.2f} s at the most"
    )

    assert {queue.run(run_id).state for run_id in run_ids} == {RunState.COMPLETED}
    assert overtaken(lives) == []
    assert max(slots.most, most_at_once(lives)) <= CAPACITY
    assert slots.doubly == []
    assert max(waits) < PROMOTION_S
    once = dict.fromkeys(COMPONENTS, 1)
    assert [queue.starts(run_id) for run_id in run_ids] == [once] * len(run_ids)
    # their workers lived on, so nothing was to be recovered from
    assert [queue.operations(run_id) for run_id in in_up] == [LIFE] * len(in_up)
    nothing_is_left(queue)


def runs_in_up(queue: SharedQueue, run_ids: list[str]) -> list[str]:
    """Return the runs whose stack is being brought up by a worker that has its engine."""

    def is_in_up(run_id: str) -> bool:
        found = run_folder(run_id, queue.site.home).read()
        if found is None or found.report.kind is not OperationKind.UP or found.worker is None:
            return False
        # alone, it may wait for its request, which a server that dies then never sends
        return (
            found.report.state is OperationState.RUNNING
            and len(session_processes(found.worker)) > 1
        )

    return [run_id for run_id in run_ids if is_in_up(run_id)]


def most_at_once(lives: list[Life]) -> int:
    """Return how many of the runs had processes at once, at the most."""
    return max(sum(one.began <= each.began < one.ended for one in lives) for each in lives)


def overtaken(lives: list[Life]) -> list[tuple[str, str]]:
    """Return runs that a later one was promoted before, each with that one.

    A run whose stack was still being made counts not: its place is kept, and costs no other's.
    """
    return [
        (one.run_id, later.run_id)
        for index, one in enumerate(lives)
        for later in lives[index + 1 :]
        if later.event_id < one.event_id and one.made < later.promoted - PASS_S
    ]


def latencies(lives: list[Life]) -> list[float]:
    """Return how long each run that could start was kept waiting, in seconds, in their order.

    It could once a run had left its place, its own stack was made, and those before it had begun.
    """
    freed = sorted(one.over for one in lives)
    found, ready = [], 0.0
    for index, one in enumerate(lives):
        place = freed[index - CAPACITY] if index >= CAPACITY else 0.0
        ready = max(ready, one.made, place)
        found.append(one.promoted - ready)
    return found


def nothing_is_left(queue: SharedQueue) -> None:
    """See that the runs have left no stack, process, slot, socket, project, lock or lease."""
    site = queue.site
    site.assert_nothing_left()
    stacks = site.pulumi("stack", "ls").out.splitlines()[1:]
    assert [line.split()[0].rstrip("*") for line in stacks] == [site.cluster]
    assert list(BucketStore(f"s3://{BUCKET}").keys(".pulumi/locks/")) == []
    assert {path.name for path in (site.home / "projects").iterdir()} <= OF_SERVERS
    wait_for(lambda: queue.holders() == {})
