"""What becomes of a run whose `up` or resume did not end well; one that runs is left alone."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from runtime.control.operations import CAPACITY, LOST_LEASE, OperationKind, OperationState
from runtime.control.places import Seen
from runtime.control.requests import ResumeRun
from runtime.control.situations import Situation
from runtime.control.start_steps import MAX_UPS
from runtime.control.step_kinds import (
    Advance,
    Amend,
    EndWorkloads,
    NewAttempt,
    Nothing,
    Start,
    Step,
)
from runtime.control.steps import next_step
from runtime.control.values import Wish
from runtime.observe.judge import Transition
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator, FakeRun
from tests.runtime.control.reconciling.site import Site
from tests.runtime.control.reconciling.test_remade import MAKE, NOW, RUN

K, S = OperationKind, RunState
PENDING = replace(RUN, state=S.PENDING, cluster="east", gpu_type="H100_80GB")
UP = replace(MAKE, kind=K.UP, code="stack", message="its config was changed")
RECOVERED = replace(UP, kind=K.RECOVER, state=OperationState.DONE, code="", recovers=K.UP)
QUOTA = replace(UP, code=CAPACITY, message="exceeded quota: jobs", is_retryable=True)
SILENT = Seen(is_reachable=False)
REFUSED: dict[str, object] = {"code": "stack", "message": "its config was changed"}
FULL: dict[str, object] = {"code": CAPACITY, "message": "exceeded quota", "is_retryable": True}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (0.1, 0.2))


def seen(state: RunState, *, num_left: int = 1, reason: str = "") -> Seen:
    return Seen(transition=Transition(state=state, reason=reason), num_left=num_left)


def step(newest: object, look: Seen | None, **changes: object) -> Step:
    at = Situation(run=PENDING, now=NOW + timedelta(seconds=60), seen=look)
    return next_step(replace(at, **({"newest": newest} | changes)))  # type: ignore[arg-type]  # by name


def fails_after(
    operator: FakeOperator, cluster: FakeCluster, failure: dict[str, object], made: FakeRun
) -> None:
    """Let the next `up` fail once it has made something of the run."""
    operator.failures[K.UP] = [failure]
    finish: Callable[[str], None] = operator.finish

    def finish_late(run_id: str) -> None:
        if operator.operations[run_id].kind is K.UP and operator.failures[K.UP]:
            cluster.runs[run_id] = made
        finish(run_id)

    operator.finish = finish_late  # type: ignore[method-assign]  # of this one


def running(site: Site, cluster: FakeCluster) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)
    cluster.become("run-1", S.RUNNING)
    site.until_state("run-1", S.RUNNING)


def test_a_run_that_runs_is_not_brought_up_again_after_a_crash(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster)
    with site.store.write() as tx:
        tx.exec_driver_sql("UPDATE operations SET holder = 'dead', state = 'running'")
    del operator.reports["run-1"]

    site.pass_until(lambda: K.RECOVER in operator.of("run-1"))
    for _ in range(3):
        site.reconciler.make_pass()
    cluster.become("run-1", S.COMPLETED)
    run = site.until_settled("run-1")

    assert run.state is S.COMPLETED
    assert operator.of("run-1") == [K.MAKE, K.UP, K.RECOVER, K.DESTROY, K.REMOVE]


@pytest.mark.parametrize("state", [S.QUEUED, S.PENDING, S.CREATING, S.PULLING_IMAGE])
def test_what_had_not_come_up_is_brought_up_again(state: RunState) -> None:
    assert step(RECOVERED, seen(state)) == Start(kind=K.UP)


def test_what_runs_no_more_is_brought_up_again_after_a_crash() -> None:
    assert step(RECOVERED, seen(S.RUNNING, num_left=0)) == Start(kind=K.UP)
    assert step(RECOVERED, Seen()) == Start(kind=K.UP)


def test_what_runs_on_a_silent_cluster_is_not_known() -> None:
    assert step(RECOVERED, SILENT) == Nothing()


def test_a_run_that_runs_goes_on_although_its_up_was_refused(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    fails_after(operator, cluster, REFUSED, FakeRun(state=S.RUNNING))
    site.dispatch("run-1")
    site.until_state("run-1", S.RUNNING)
    for _ in range(3):
        site.reconciler.make_pass()
    assert [one.message for one in site.events("run-1", "notice")] == [
        "runs on although its up failed: its config was changed"
    ]

    cluster.become("run-1", S.COMPLETED)
    run = site.until_settled("run-1")

    assert run.state is S.COMPLETED
    assert operator.of("run-1") == [K.MAKE, K.UP, K.DESTROY, K.REMOVE]


def test_a_run_that_lacks_a_part_fails_with_its_up() -> None:
    failed = Advance(state=S.FAILED, reason=UP.message)

    assert step(UP, seen(S.CREATING)) == failed
    assert step(UP, seen(S.RUNNING, num_left=0)) == failed


def test_no_try_counts_while_the_cluster_is_silent() -> None:
    newest = replace(UP, is_retryable=True, num_tries=MAX_UPS)
    assert isinstance(step(newest, Seen()), Advance)

    for one in (newest, UP):
        amended = step(one, SILENT)
        assert amended == Amend(operation=replace(one, num_tries=0))
    assert step(replace(newest, num_tries=0), Seen()) == Start(kind=K.UP)


def test_an_outage_of_the_cluster_ends_no_run(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    failure: dict[str, object] = {
        "code": "stack",
        "message": "connection refused",
        "is_retryable": True,
    }
    operator.failures[K.UP] = [failure] * MAX_UPS
    site.dispatch("run-1")
    site.pass_until(lambda: operator.of("run-1").count(K.UP) == MAX_UPS - 1)
    cluster.is_reachable = False
    site.pass_until(lambda: site.run("run-1").reason == "cluster east does not answer")
    num_ups = operator.of("run-1").count(K.UP)
    for _ in range(3):
        site.reconciler.make_pass()
    assert operator.of("run-1").count(K.UP) == num_ups

    cluster.is_reachable = True
    site.pass_until(lambda: "run-1" in cluster.runs)

    assert cluster.starts == [("run-1", 1)]


def test_a_lost_lease_is_no_try(site: Site, cluster: FakeCluster, operator: FakeOperator) -> None:
    failure: dict[str, object] = {"code": LOST_LEASE, "message": "it went", "is_retryable": True}
    operator.failures[K.UP] = [failure] * (MAX_UPS + 1)
    site.dispatch("run-1")

    site.pass_until(lambda: "run-1" in cluster.runs)

    newest = site.newest("run-1")
    assert newest is not None
    assert newest.num_tries == 1
    assert operator.of("run-1").count(K.UP) == MAX_UPS + 2


def test_what_was_never_begun_is_no_try() -> None:
    lost = replace(MAKE, code=LOST_LEASE, num_tries=MAX_UPS)

    assert step(lost, None, run=RUN) == Start(kind=K.MAKE)
    up = replace(UP, code=LOST_LEASE, is_retryable=True, num_tries=MAX_UPS)
    assert step(up, Seen()) == Start(kind=K.UP)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_resume_whose_secrets_were_not_stored_is_taken_back(
    site: Site, cluster: FakeCluster, operator: FakeOperator, is_cut: bool
) -> None:
    running(site, cluster)
    site.intents.pause(site.user, "run-1")
    site.until_state("run-1", S.PAUSING)
    cluster.runs["run-1"].checkpoint = 1
    site.until_state("run-1", S.PAUSED)
    if is_cut:
        operator.held.add(K.SET)
    operator.failures[K.SET] = [{"code": "stack", "message": "the key service is away"}]

    site.intents.resume(site.user, "run-1", ResumeRun(secrets={"HF_TOKEN": "x"}))
    if is_cut:
        with site.store.write() as tx:
            tx.exec_driver_sql("UPDATE operations SET holder = 'dead'")
        del operator.reports["run-1"]
    run = site.until_state("run-1", S.PAUSED)

    why = "the server ended while it stored the secrets" if is_cut else "the key service is away"
    assert run.reason == f"not resumed: {why}: resume it again, with its secrets"
    assert site.events("run-1")[-1].message == run.reason
    assert run.wish is Wish.PAUSE

    site.intents.resume(site.user, "run-1", ResumeRun())
    site.pass_until(lambda: cluster.runs["run-1"].attempt == run.attempt + 1)
    cluster.become("run-1", S.COMPLETED)
    assert site.until_settled("run-1").state is S.COMPLETED


def test_a_quota_that_refuses_a_part_ends_the_others_before_the_run_queues_again(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.num_gpus = lambda run_id: 3
    fails_after(operator, cluster, FULL, FakeRun(num_gpus=2))
    site.dispatch("run-1", num_gpus=3)

    site.pass_until(lambda: cluster.starts)

    assert cluster.ended == [("run-1", "exceeded quota")]
    assert cluster.starts == [("run-1", 2)]
    assert S.QUEUED in site.states("run-1")
    assert S.STOPPED not in site.states("run-1")
    assert all(one.ended_at for one in site.intervals("run-1") if one.attempt == 1)


def test_what_another_server_ended_for_a_quota_queues_again() -> None:
    ended = seen(S.STOPPED, num_left=0, reason=QUOTA.message)

    assert step(QUOTA, seen(S.PENDING)) == EndWorkloads(reason=QUOTA.message)
    assert step(QUOTA, ended) == NewAttempt(reason=QUOTA.message)
    assert step(QUOTA, seen(S.STOPPED, reason="by hand")) == Advance(
        state=S.STOPPED, reason="by hand", needs_none_left=True
    )


def test_a_run_that_finds_no_room_again_and_again_waits_longer(
    site: Site, operator: FakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (60.0, 300.0))
    operator.failures[K.UP] = [FULL] * 1000
    site.dispatch("run-1")

    for _ in range(20):
        site.reconciler.make_pass()

    run = site.run("run-1")
    assert operator.of("run-1").count(K.UP) == 2  # the second at once
    assert (run.state, run.reason) == (S.PENDING, "exceeded quota")


@pytest.mark.parametrize(("num_refused", "wait_s"), [(1, 0), (2, 5), (3, 10), (20, 300)])
def test_the_wait_for_room_grows(
    monkeypatch: pytest.MonkeyPatch, num_refused: int, wait_s: float
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (5.0, 300.0))
    run = replace(PENDING, attempt=2, reason=QUOTA.message)

    def after(seconds: float) -> Step:
        now = NOW + timedelta(seconds=seconds)
        return step(QUOTA, Seen(), run=run, num_refused=num_refused, now=now)

    assert after(wait_s) == Start(kind=K.RESUME)
    if wait_s:
        assert after(wait_s - 1) == Nothing()


def test_a_refusal_for_want_of_room_is_no_failed_try(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    away: dict[str, object] = {"code": "stack", "message": "timed out", "is_retryable": True}
    operator.failures[K.UP] = [FULL, FULL, away, away]
    site.dispatch("run-1")

    site.pass_until(lambda: "run-1" in cluster.runs)

    assert site.run("run-1").state is S.PENDING
