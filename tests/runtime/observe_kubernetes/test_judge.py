"""What is seen of a run's pods decides its state; a table of facts and verdicts."""

from typing import Any

import pytest

from runtime.observe.kubernetes.facts import (
    ContainerFact,
    Disruption,
    RunFacts,
    WorkloadFact,
)
from runtime.observe.kubernetes.judge import judge_pods, needs_last_step
from runtime.states import RunState
from tests.runtime.observe_kubernetes.runs_seen import (
    NOW,
    RUN,
    end,
    facts,
    job,
    main,
    pod,
    record,
)

INFERENCE, MATH, ORCHESTRATOR, TRAINER, TRAINER_1 = (one.key for one in RUN.pods)
DONE = pod(ORCHESTRATOR, main(word=end("completed", "exited with code 0", end_mark=True)))
QUIET = pod(ORCHESTRATOR, main(word=end("completed", "exited with code 0")))
TRAINED = tuple(pod(key, main(word=end("completed"))) for key in (TRAINER, TRAINER_1))
KILLED = pod(
    MATH,
    main(word=end("failed", "was killed by SIGKILL", signal="SIGKILL"), exit_code=137),
    phase="Failed",
)
EXITED = end("failed", "exited with code 1")
ENDED = main(word=end("ended", "env-train-math failed: was killed by SIGKILL"), exit_code=143)
BY_SIGTERM = main(word=end("ended", "it was asked to by SIGTERM"), exit_code=143)
LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi."


def evicted(key: str, by: str, words: str, **changes: Any):  # noqa: ANN401 - fields of the fact
    disruption = Disruption(reason=by, message=words, time=NOW - 30)
    return pod(key, BY_SIGTERM, phase="Failed", disruption=disruption, **changes)


FAILURES = [
    (
        facts(KILLED),
        "env-train-math (source math, pod run-one-1-env-train-math-0-0-abcde on node-7) "
        "was killed by SIGKILL",
    ),
    # the first cause wins, and what was ended is none
    (facts(KILLED, pod(TRAINER, ENDED)), "env-train-math (source math"),
    (
        facts(KILLED, pod(TRAINER, main(word=EXITED, finished=NOW - 9))),
        "trainer-0 (pod run-one-1-trainer-0-0-abcde on node-7) exited with code 1",
    ),
    (
        facts(pod(TRAINER, main("terminated", reason="OOMKilled", exit_code=137,
                                memory_limit="64Gi", word=None, finished=NOW))),
        "was OOMKilled: it went over its memory limit of 64Gi",
    ),
    (
        facts(pod(TRAINER, main("terminated", reason="Error", exit_code=137, finished=NOW))),
        "was killed by SIGKILL (exit code 137)",
    ),
    (
        facts(pod(MATH, main("terminated", reason="Completed", exit_code=0, finished=NOW))),
        "exited with code 0 while the run was live",
    ),
    (
        facts(evicted(TRAINER, "TerminationByKubelet", LOW, reason="Evicted", message=LOW)),
        "was evicted by kubelet (Evicted: ephemeral-storage): The node was low on resource",
    ),
    (
        facts(evicted(TRAINER, "DeletionByTaintManager", "Taint manager: deleting due to NoExec")),
        "was lost with its node (DeletionByTaintManager): Taint manager",
    ),
    (
        facts(evicted(TRAINER, "DeletionByPodGC", "PodGC: node no longer exists")),
        "was lost with its node (DeletionByPodGC): PodGC",
    ),
    (
        facts(evicted(TRAINER, "PreemptionByScheduler", "Preempted by pod 7 on node n")),
        "was preempted by a pod of higher priority",
    ),
    (
        facts(evicted(TRAINER, "EvictionByEvictionAPI", "Eviction API: evicting")),
        "was ended by the cluster (EvictionByEvictionAPI)",
    ),
    (
        facts(pod(TRAINER, ContainerFact(name="main", state="waiting"), phase="Failed",
                  reason="UnexpectedAdmissionError", message="no healthy devices")),
        "was ended by kubelet (UnexpectedAdmissionError): no healthy devices",
    ),
    # a pod that somebody deleted: its Job lives
    (
        facts(pod(TRAINER_1, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20)),
        "trainer-1 (pod run-one-1-trainer-0-1-abcde on node-7) was deleted",
    ),
    # what follows from it is not the cause
    (
        facts(
            pod(TRAINER_1, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20),
            pod(TRAINER, main(word=end("failed", "exited with code 1"), finished=NOW - 50)),
        ),
        "trainer-1 (pod run-one-1-trainer-0-1-abcde on node-7) was deleted",
    ),
    # a failed pod makes the Job delete its others
    (
        facts(
            pod(TRAINER_1, BY_SIGTERM, deletion_asked=NOW - 50, gone_at=NOW - 20),
            pod(TRAINER, main(word=end("failed", "exited with code 1"), finished=NOW - 50)),
            jobs=(job(TRAINER, failure="BackoffLimitExceeded"),),
        ),
        "trainer-0 (pod run-one-1-trainer-0-0-abcde on node-7) exited with code 1",
    ),
    (
        facts(pod(TRAINER, not_ready_since=NOW - 130)),
        "trainer-0 (pod run-one-1-trainer-0-0-abcde on node-7) was lost: node node-7 is not ready",
    ),
    (
        facts(pod(ORCHESTRATOR, main(word=end("ended", "trainer-1 gave no heartbeat for 60 s")))),
        "trainer-1 (pod run-one-1-trainer-0-1-abcde on node-7) was lost: it gave no heartbeat",
    ),
    (
        facts(pod(MATH, ContainerFact(name="prepare", is_init=True, state="terminated",
                                      exit_code=1, finished=NOW,
                                      end=end("failed", "no module `math`")))),
        "could not be prepared: no module `math`",
    ),
    (
        facts(pod(MATH, ContainerFact(name="packages", is_init=True, state="terminated",
                                      reason="Error", exit_code=1, finished=NOW))),
        "could not install its environment packages: exited with code 1",
    ),
    (
        facts(jobs=(job(TRAINER, failure="PodFailurePolicy", failure_message="Pod x has"),),
              pods=()),
        "trainer-0 failed: its Job failed (PodFailurePolicy): Pod x has",
    ),
    # the orchestrator's end alone is no success
    (facts(QUIET, *TRAINED, last_step=41), "at step 41 of 100 and without its end mark"),
    (facts(QUIET), "at no known step of 100 and without its end mark"),
    (
        facts(pod(ORCHESTRATOR, main(word=end("completed", "exited with code 0; the kernel's OOM "
                                              "killer ended 1 process(es) meanwhile"))),
              last_step=3),
        "OOM killer ended 1 process(es) meanwhile, at step 3 of 100",
    ),
    (
        facts(DONE, pod(TRAINER, main(word=end("ended", "it did not end within 60 s")))),
        "did not end by itself after the orchestrator",
    ),
    (facts(DONE, pod(TRAINER, main(word=end("failed", "exited with code 1")))), "trainer-0"),
    (
        facts(pod(TRAINER, main(word=end("completed"), finished=NOW - 61)), last_step=41),
        "trainer-0 (pod run-one-1-trainer-0-0-abcde on node-7) exited with code 0, at step 41",
    ),
    (facts(pods=(), workloads_gone_since=NOW - 121), "its Jobs were deleted"),
    (
        facts(workload=WorkloadFact(name="w", state="never", reason="ExceedsMaxQuota",
                                    message="64 > 32 nvidia.com/gpu")),
        "Kueue: ExceedsMaxQuota: 64 > 32 nvidia.com/gpu",
    ),
    (
        facts(workload=WorkloadFact(name="w", state="deactivated", reason="Deactivated")),
        "Kueue: Deactivated",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "reason"), FAILURES)
def test_what_is_seen_fails_the_run(seen: RunFacts, reason: str):
    transition = judge_pods(seen, record(), RUN)

    assert transition is not None
    assert transition.state is RunState.FAILED
    assert reason in transition.reason


NOT_YET = [
    facts(),
    facts(DONE),
    facts(DONE, TRAINED[0]),
    facts(DONE, TRAINED[0], without=TRAINER_1),
    # going with its Job, or with a suspension: a stop, a destroy or a preemption
    facts(pod(TRAINER, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20),
          jobs=(job(TRAINER, is_deleted=True),)),
    facts(pod(TRAINER, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20),
          jobs=(job(TRAINER, is_suspended=True),)),
    facts(pod(TRAINER, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20),
          jobs=(job(INFERENCE),)),
    # killed when its grace was over
    facts(pod(TRAINER, main("terminated", exit_code=137, finished=NOW), deletion_asked=NOW - 60),
          jobs=(job(TRAINER, is_deleted=True),)),
    facts(pod(TRAINER, not_ready_since=NOW - 60)),
    facts(pods=(), workloads_gone_since=NOW - 60),
    facts(QUIET, is_step_unknown=True),
    facts(pod(TRAINER, main(word=end("completed"), finished=NOW - 30)), last_step=41),
    facts(pod(TRAINER, ENDED), pod(ORCHESTRATOR, ENDED)),
]  # fmt: skip


@pytest.mark.parametrize("seen", NOT_YET)
def test_a_run_goes_on(seen: RunFacts):
    assert judge_pods(seen, record(), RUN) is None


@pytest.mark.parametrize(
    "seen",
    [
        facts(DONE, *TRAINED),
        facts(QUIET, *TRAINED, last_step=100),
        # a server may stumble over the end of its only client
        facts(DONE, *TRAINED, KILLED),
        # kubelet's word is enough where the wrapper left none
        facts(QUIET, *(pod(one.key, main("terminated", exit_code=0)) for one in TRAINED),
              last_step=100),
    ],
)  # fmt: skip
def test_a_run_that_is_done_is_completed(seen: RunFacts):
    transition = judge_pods(seen, record(), RUN)

    assert transition is not None
    assert transition.state is RunState.COMPLETED


def test_an_evicted_workload_is_preempted_whatever_its_pods_say():
    gone = pod(TRAINER, BY_SIGTERM, deletion_asked=NOW - 60, gone_at=NOW - 20)
    workload = WorkloadFact(name="w", state="evicted", reason="Preempted", message="by run-two")

    transition = judge_pods(facts(gone, KILLED, workload=workload), record(), RUN)

    assert transition is not None
    assert transition.is_preempted
    assert transition.state is RunState.QUEUED
    assert transition.reason == "preempted (Preempted): by run-two"


def test_a_record_that_is_over_or_at_another_attempt_stays():
    assert judge_pods(facts(KILLED), record(RunState.STOPPED), RUN) is None
    assert judge_pods(facts(KILLED, attempt=2), record(), RUN) is None


def test_the_last_step_is_asked_for_only_where_it_decides():
    assert needs_last_step(facts(QUIET), RUN)
    assert needs_last_step(facts(TRAINED[0]), RUN)
    assert not needs_last_step(facts(), RUN)
    assert not needs_last_step(facts(DONE, TRAINED[0]), RUN)


def test_a_failure_carries_what_the_record_keeps_of_it():
    transition = judge_pods(facts(KILLED), record(), RUN)

    assert transition is not None
    assert transition.component == "env-train-math"
    assert transition.signal == "SIGKILL"
    assert transition.log == "env-train-math.log"
    assert transition.pod == KILLED.name
