"""A run from the queue to its teardown, stopped, paused and preempted on the way."""

from datetime import UTC, datetime, timedelta

import pytest

from runtime.control.failures import NOT_TAKEN_BACK
from runtime.control.operations import CAPACITY, UNREACHABLE, OperationKind
from runtime.control.requests import ResumeRun
from runtime.errors import NotFoundError, RunStateError
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator
from tests.runtime.control.reconciling.site import Site
from tests.runtime.control.store.rows import add_user

K, S = OperationKind, RunState
TORN_DOWN = [K.DESTROY, K.REMOVE]


def running(site: Site, cluster: FakeCluster, run_id: str = "run-1") -> None:
    site.dispatch(run_id)
    site.pass_until(lambda: run_id in cluster.runs)
    cluster.become(run_id, S.RUNNING)
    site.until_state(run_id, S.RUNNING)


def test_a_run_goes_from_the_queue_to_its_teardown(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster)
    cluster.become("run-1", S.COMPLETED)

    run = site.until_settled("run-1")

    assert (run.state, run.teardown, run.capture) == (S.COMPLETED, Teardown.DONE, Capture.DONE)
    assert operator.of("run-1") == [K.MAKE, K.UP, *TORN_DOWN]
    assert site.states("run-1") == [S.PENDING, S.RUNNING, S.COMPLETED]
    assert run.started_at is not None
    assert run.ended_at is not None
    [interval] = site.intervals("run-1")
    assert interval.ended_at is not None
    assert interval.price_microusd_per_gpu_hour == 2_000_000


def test_a_run_whose_stack_cannot_be_made_fails_and_leaves_nothing(
    site: Site, operator: FakeOperator
) -> None:
    operator.failures[K.MAKE] = [{"code": "stack", "message": "the backend is full"}]
    site.dispatch("run-1")

    run = site.until_settled("run-1")

    assert (run.state, run.reason) == (S.FAILED, "the backend is full")
    assert operator.of("run-1") == [K.MAKE]


@pytest.mark.parametrize("code", sorted(NOT_TAKEN_BACK))
def test_what_was_cut_off_while_it_made_a_stack_is_removed(
    site: Site, operator: FakeOperator, code: str
) -> None:
    operator.failures[K.MAKE] = [{"code": code, "message": "the process of make died"}]
    site.dispatch("run-1")

    run = site.until_settled("run-1")

    assert (run.state, run.teardown) == (S.FAILED, Teardown.DONE)
    assert operator.of("run-1") == [K.MAKE, K.REMOVE]


@pytest.mark.parametrize("state", [S.PENDING, S.CREATING, S.PULLING_IMAGE, S.RUNNING])
def test_a_stop_says_stopped_once_nothing_is_left(
    site: Site, cluster: FakeCluster, operator: FakeOperator, state: RunState
) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)
    cluster.become("run-1", state)
    site.until_state("run-1", state)
    cluster.lingering = 2

    site.intents.stop(site.user, "run-1")
    site.pass_until(lambda: len(cluster.ended) >= 2)
    assert site.run("run-1").state is state
    run = site.until_settled("run-1")

    assert (run.state, run.reason) == (S.STOPPED, "stopped on request")
    assert cluster.starts == [("run-1", 1)]
    assert operator.of("run-1") == [K.MAKE, K.UP, *TORN_DOWN]


def test_a_queued_run_is_stopped_without_ever_starting(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster, "run-0")
    site.dispatch("run-1", num_gpus=3)
    site.reconciler.make_pass()
    assert site.run("run-1").state is S.QUEUED

    site.intents.stop(site.user, "run-1")
    run = site.until_settled("run-1")

    assert run.state is S.STOPPED
    assert operator.of("run-1") == [K.MAKE, K.REMOVE]


def test_a_stop_interrupts_the_up_that_is_under_way(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.held.add(K.UP)
    site.dispatch("run-1")
    site.pass_until(lambda: K.UP in operator.of("run-1"))

    site.intents.stop(site.user, "run-1")
    run = site.until_settled("run-1")

    assert run.state is S.STOPPED
    assert operator.interrupted == ["run-1"]
    assert cluster.starts == []


def test_a_stop_waits_for_a_cluster_that_does_not_answer(site: Site, cluster: FakeCluster) -> None:
    running(site, cluster)
    cluster.is_reachable = False

    site.intents.stop(site.user, "run-1")
    site.pass_until(lambda: "stops once cluster east answers" in site.run("run-1").reason)
    assert site.run("run-1").state is S.RUNNING
    cluster.is_reachable = True

    assert site.until_settled("run-1").state is S.STOPPED


def test_a_silence_of_the_cluster_is_said_and_taken_back(site: Site, cluster: FakeCluster) -> None:
    running(site, cluster)
    cluster.is_reachable = False
    site.reconciler.make_pass()
    assert site.run("run-1").reason == ""  # a watch that begins is silent for a moment

    cluster.silent_since = datetime.now(UTC) - timedelta(seconds=60)
    site.pass_until(lambda: site.run("run-1").reason == "cluster east does not answer")
    assert site.run("run-1").state is S.RUNNING
    cluster.is_reachable, cluster.silent_since = True, None

    site.pass_until(lambda: site.run("run-1").reason == "")


def test_a_run_that_ended_by_itself_keeps_its_own_end(site: Site, cluster: FakeCluster) -> None:
    running(site, cluster)
    site.intents.stop(site.user, "run-1")
    cluster.become("run-1", S.COMPLETED)

    assert site.until_settled("run-1").state is S.COMPLETED


def test_a_terminal_run_is_never_started_again(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster)
    cluster.become("run-1", S.FAILED, "trainer-0 exited with code 1")
    site.until_settled("run-1")

    for _ in range(3):
        site.reconciler.make_pass()
    with pytest.raises(RunStateError, match="--resume-from run-1"):
        site.intents.resume(site.user, "run-1", ResumeRun())
    assert site.intents.stop(site.user, "run-1").state is S.FAILED

    assert operator.of("run-1").count(K.UP) == 1


def test_a_pause_waits_for_a_new_checkpoint_and_a_resume_is_a_new_attempt(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster)
    cluster.runs["run-1"].checkpoint = 10
    site.intents.pause(site.user, "run-1")
    assert site.until_state("run-1", S.PAUSING).reason == "waits for a checkpoint after step 10"
    site.reconciler.make_pass()
    assert site.run("run-1").state is S.PAUSING
    cluster.runs["run-1"].checkpoint = 20
    site.until_state("run-1", S.PAUSED)
    assert cluster.ended == [("run-1", "paused")]
    assert all(one.ended_at for one in site.intervals("run-1"))

    request = ResumeRun(image_tag="v2", secrets={"HF_TOKEN": "x"})
    resumed = site.intents.resume(site.user, "run-1", request)
    site.pass_until(lambda: cluster.runs["run-1"].attempt == 2)
    cluster.become("run-1", S.COMPLETED)
    run = site.until_settled("run-1")

    assert (resumed.state, resumed.attempt) == (S.QUEUED, 2)
    assert (run.state, run.attempt) == (S.COMPLETED, 2)
    assert operator.of("run-1") == [K.MAKE, K.UP, K.SET, K.RESUME, *TORN_DOWN]
    assert cluster.starts == [("run-1", 1), ("run-1", 2)]


def test_a_paused_run_is_stopped(site: Site, cluster: FakeCluster, operator: FakeOperator) -> None:
    running(site, cluster)
    site.intents.pause(site.user, "run-1")
    site.until_state("run-1", S.PAUSING)
    cluster.runs["run-1"].checkpoint = 1
    site.until_state("run-1", S.PAUSED)

    site.intents.stop(site.user, "run-1")

    assert site.until_settled("run-1").state is S.STOPPED
    assert operator.of("run-1")[-2:] == TORN_DOWN


def test_only_a_running_run_is_paused_or_restarted(site: Site) -> None:
    site.dispatch("run-1")

    with pytest.raises(RunStateError, match="only a RUNNING run can be paused, run-1 is QUEUED"):
        site.intents.pause(site.user, "run-1")
    with pytest.raises(RunStateError, match="only a RUNNING run can be restarted"):
        site.intents.restart(site.user, "run-1")
    with pytest.raises(NotFoundError):
        site.intents.stop(add_user(site.store, "eve"), "run-1")


def test_a_restart_keeps_its_room(site: Site, cluster: FakeCluster, operator: FakeOperator) -> None:
    running(site, cluster)
    site.dispatch("run-2", num_gpus=3)
    site.intents.restart(site.user, "run-1")

    site.pass_until(lambda: len(site.intervals("run-1")) == 2)

    assert site.run("run-2").state is S.QUEUED
    before, after = site.intervals("run-1")
    assert before.ended_at == after.started_at
    assert after.ended_at is None
    assert operator.of("run-1") == [K.MAKE, K.UP, K.RESUME]


def test_a_preempted_run_queues_as_its_next_attempt(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    running(site, cluster)
    cluster.runs["run-1"].preempted = True
    cluster.runs["run-1"].num_left = 0

    site.pass_until(lambda: cluster.runs["run-1"].attempt == 2)

    assert operator.of("run-1") == [K.MAKE, K.UP, K.RESUME]
    assert S.QUEUED in site.states("run-1")
    assert site.events("run-1")[2].message == "preempted by another"


def test_a_deleted_run_is_forgotten_once_it_is_torn_down(site: Site, cluster: FakeCluster) -> None:
    running(site, cluster)

    site.intents.delete(site.user, "run-1")
    site.pass_until(lambda: site.run("run-1").deleted_at)

    run = site.run("run-1")
    assert (run.state, run.reason, run.teardown) == (S.STOPPED, "deleted", Teardown.DONE)


def test_an_up_without_room_queues_again(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.failures[K.UP] = [{"code": CAPACITY, "message": "needs 1 slot, 0 are free"}]
    site.dispatch("run-1")

    site.pass_until(lambda: "run-1" in cluster.runs)

    assert site.states("run-1")[:3] == [S.PENDING, S.QUEUED, S.PENDING]
    assert site.run("run-1").attempt == 1


def test_an_up_that_fails_for_good_fails_the_run(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.failures[K.UP] = [{"code": "stack", "message": "no such image"}]
    site.dispatch("run-1")

    run = site.until_settled("run-1")

    assert (run.state, run.reason) == (S.FAILED, "no such image")
    assert operator.of("run-1") == [K.MAKE, K.UP, *TORN_DOWN]


def test_a_teardown_of_a_cluster_that_is_away_says_so_and_goes_on(
    site: Site, cluster: FakeCluster, operator: FakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (0.1, 0.2))
    failure: dict[str, object] = {"code": UNREACHABLE, "message": "no route to host"}
    operator.failures[K.DESTROY] = [failure, failure]
    running(site, cluster)
    cluster.become("run-1", S.COMPLETED)

    run = site.until_settled("run-1")

    assert run.teardown is Teardown.DONE
    words = [one.message for one in site.events("run-1", "teardown")]
    assert words == ["running", "unreachable: no route to host", "done"]
    assert operator.of("run-1").count(K.DESTROY) == 3
