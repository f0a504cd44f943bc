"""What a run on its way waits for is told in the scheduler's, kubelet's or Kueue's own words."""

import pytest

from runtime.observe.kubernetes.facts import ContainerFact, PullFact, RunFacts, WorkloadFact
from runtime.observe.kubernetes.judge import judge_pods
from runtime.observe.kubernetes.launched import LaunchedRun
from runtime.states import RunState
from tests.runtime.observe_kubernetes.runs_seen import NOW, RUN, end, facts, job, main, pod, record

TRAINER = "trainer-0-0"
DONE = pod("orchestrator-0-0", main(word=end("completed", end_mark=True)))
WAITING = ContainerFact(name="main", state="waiting", reason="ContainerCreating", image="img:1")
BACK_OFF = ContainerFact(
    name="prepare", is_init=True, state="waiting", reason="ImagePullBackOff", message="no route",
    image="img:1",
)  # fmt: skip
HOMELESS = pod(
    TRAINER, WAITING, is_scheduled=False, node="", schedule_message="0/4 nodes are available"
)
GANG = pod(
    "inference-0-0", WAITING, is_scheduled=False, node="",
    schedule_message="minCount (4) cannot be satisfied: 0 scheduled, 3 remaining",
)  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "state", "reason"),
    [
        (facts(), "RUNNING", ""),
        (facts(DONE), "RUNNING", ""),
        (facts(HOMELESS), "PENDING", "1 of 5 pods wait for a node; trainer-0: 0/4 nodes"),
        (facts(GANG, HOMELESS), "PENDING", "2 of 5 pods wait for a node; trainer-0: 0/4 nodes"),
        (facts(without=TRAINER), "PENDING", "4 of 5 pods are made"),
        (
            facts(without=TRAINER, jobs=(job(TRAINER, trouble="exceeded quota: gpus"),)),
            "PENDING",
            "4 of 5 pods are made: exceeded quota: gpus",
        ),
        (facts(pod(TRAINER, WAITING)), "CREATING", "trainer-0: container main is created"),
        (
            facts(pod(TRAINER, WAITING, trouble="MountVolume.SetUp failed")),
            "CREATING",
            "trainer-0: MountVolume.SetUp failed",
        ),
        # 25 minutes of a healthy pull, of an init container too
        (
            facts(pod(TRAINER, WAITING, created=NOW - 1500,
                      pull=PullFact(is_pulling=True, image="img:1"))),
            "PULLING_IMAGE",
            "img:1 on node-7",
        ),
        (facts(pod(TRAINER, BACK_OFF, WAITING, created=NOW - 9)), "PULLING_IMAGE", "no route"),
        (
            facts(pods=(), workload=WorkloadFact(name="w", state="reserved", message="a check")),
            "PENDING",
            "quota is reserved, Kueue waits: a check",
        ),
    ],
)  # fmt: skip
def test_a_run_on_its_way_says_what_it_waits_for(seen: RunFacts, state: str, reason: str):
    transition = judge_pods(seen, record(RunState.QUEUED), RUN)

    assert transition is not None
    assert transition.state == state
    assert reason in transition.reason


def test_nothing_is_said_of_a_run_that_is_not_made_yet():
    seen = RunFacts(run_id="run-one", attempt=1, time=NOW)

    assert judge_pods(seen, record(RunState.QUEUED), RUN) is None


def test_a_run_that_is_made_suspended_stays_queued():
    seen = facts(pods=(), jobs=(job(TRAINER, is_suspended=True),))

    assert judge_pods(seen, record(RunState.QUEUED), RUN) is None


def test_a_run_is_not_running_while_nobody_knows_its_pods():
    empty = LaunchedRun(run_id="run-one", attempt=1)

    transition = judge_pods(facts(), record(RunState.QUEUED), empty)

    assert transition is not None
    assert transition.state is RunState.CREATING
