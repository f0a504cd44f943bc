"""The index knows of each run what its objects show, and forgets what is gone."""

import tracemalloc

from runtime.observe.kubernetes.index import KEEP_S, RunIndex
from runtime.states import RunState
from tests.runtime.observe_kubernetes.manifests import event, job, pod, record, workload

POD = "run-one-1-trainer-0-0-x"


class Clock:
    now = 5_000.0

    def __call__(self) -> float:
        return self.now


def index(*runs: str, clock: Clock | None = None) -> RunIndex:
    made = RunIndex(clock or Clock())
    made.take_list("ConfigMap", [record(run_id) for run_id in runs])
    made.take_list("Job", [job(run_id) for run_id in runs])
    made.take_list("Pod", [pod(run_id) for run_id in runs])
    return made


def test_a_change_touches_its_own_run_only():
    seen = index("run-one", "run-two")

    assert seen.take("Pod", "MODIFIED", pod("run-one", phase="Failed")) == {"run-one"}
    assert seen.facts("run-one", 1).pods[0].phase == "Failed"
    assert seen.facts("run-two", 1).pods[0].phase == "Running"


def test_a_deleted_pod_stays_as_it_was_last_seen():
    seen = index("run-one")

    seen.take("Pod", "DELETED", pod("run-one", phase="Failed"))

    (gone,) = seen.facts("run-one", 1).pods
    assert gone.gone_at == Clock.now
    assert gone.phase == "Failed"


def test_a_list_shows_what_was_deleted_while_nobody_watched():
    seen = index("run-one", "run-two")

    changed = seen.take_list("Pod", [pod("run-two")])

    assert "run-one" in changed
    assert seen.facts("run-one", 1).pods[0].gone_at is not None
    assert seen.facts("run-two", 1).pods[0].gone_at is None


def test_a_pod_that_was_made_again_takes_the_place_of_the_one_that_went():
    seen = index("run-one")
    seen.take("Pod", "DELETED", pod("run-one"))

    seen.take("Pod", "ADDED", pod("run-one", "again", created=5))

    (found,) = seen.facts("run-one", 1).pods
    assert found.name == "again"


def test_attempts_are_told_apart():
    seen = index("run-one")
    seen.take("Pod", "ADDED", pod("run-one", attempt=2))

    assert [one.attempt for one in seen.facts("run-one", 1).pods] == [1]
    assert [one.attempt for one in seen.facts("run-one", 2).pods] == [2]


def test_events_reach_their_pod_whatever_comes_first():
    seen = RunIndex(Clock())
    assert seen.take("Event", "ADDED", event(POD, "Pulling", 'Pulling image "i"')) == set()

    seen.take("Pod", "ADDED", pod("run-one"))

    assert seen.facts("run-one", 1).pods[0].pull.is_pulling
    assert seen.take("Event", "ADDED", event(POD, "FailedMount", "no volume")) == {"run-one"}
    assert seen.facts("run-one", 1).pods[0].trouble == "no volume"


def test_a_quota_s_refusal_reaches_the_job():
    seen = index("run-one")
    said = event("run-one-1-trainer-0", "FailedCreate", "exceeded quota", kind="Job")

    assert seen.take("Event", "ADDED", said) == {"run-one"}
    assert seen.facts("run-one", 1).jobs[0].trouble == "exceeded quota"


def test_a_workload_is_found_by_its_owner():
    seen = index("run-one")

    assert seen.take("Workload", "ADDED", workload("run-one-1-trainer-0")) == {"run-one"}
    assert seen.facts("run-one", 1).workload is not None
    seen.take("Workload", "DELETED", workload("run-one-1-trainer-0"))
    assert seen.facts("run-one", 1).workload is None


def test_jobs_that_are_gone_are_missed_only_once_there_were_some():
    seen = RunIndex(Clock())
    seen.take("ConfigMap", "ADDED", record("run-one", RunState.QUEUED))
    assert seen.facts("run-one", 1).workloads_gone_since is None

    seen.take("Job", "ADDED", job("run-one"))
    assert seen.facts("run-one", 1).workloads_gone_since is None

    seen.take("Job", "DELETED", job("run-one"))
    assert seen.facts("run-one", 1).workloads_gone_since == Clock.now


def test_a_suspended_job_says_so():
    seen = RunIndex(Clock())
    seen.take("Job", "ADDED", job("run-one", suspend=True))

    assert seen.facts("run-one", 1).jobs[0].is_suspended


def test_a_run_is_open_while_it_lives_or_its_pods_do():
    seen = index("run-one", "run-two", "run-three")
    seen.take("ConfigMap", "MODIFIED", record("run-two", RunState.FAILED))
    seen.take("ConfigMap", "MODIFIED", record("run-three", RunState.COMPLETED))
    seen.take("Pod", "MODIFIED", pod("run-three", phase="Succeeded"))

    assert sorted(seen.open_run_ids()) == ["run-one", "run-two"]


def test_a_damaged_record_harms_nobody():
    seen = index("run-one")
    broken = record("run-two")
    broken["data"] = {"record.json": "{"}

    assert seen.take("ConfigMap", "ADDED", broken) == set()
    assert seen.record("run-one") is not None


def test_the_end_of_pods_is_known_for_a_while_after_their_run_is_over():
    clock = Clock()
    seen = index("run-one", clock=clock)
    seen.take("Pod", "DELETED", pod("run-one", phase="Failed"))
    seen.take("Job", "DELETED", job("run-one"))
    seen.take("ConfigMap", "MODIFIED", record("run-one", RunState.STOPPED))
    (kept,) = seen.facts("run-one", 1).pods

    clock.now += KEEP_S
    seen.take("ConfigMap", "ADDED", record("run-two"))

    assert (kept.gone_at, kept.phase) == (Clock.now, "Failed")
    assert seen.facts("run-one", 1).pods == ()
    assert seen.record("run-one") is not None


def test_runs_that_come_and_go_leave_next_to_nothing():
    clock = Clock()
    seen = RunIndex(clock)

    def live(number: int) -> None:
        run_id = f"run-{number}"
        seen.take("ConfigMap", "ADDED", record(run_id))
        seen.take("Job", "ADDED", job(run_id))
        for place in range(8):
            name = f"{run_id}-{place}"
            seen.take("Event", "ADDED", event(name, "Pulling", 'Pulling image "i"'))
            seen.take("Pod", "ADDED", pod(run_id, name))
        seen.take("ConfigMap", "MODIFIED", record(run_id, RunState.COMPLETED))
        for place in range(8):
            seen.take("Pod", "DELETED", pod(run_id, f"{run_id}-{place}"))
        seen.take("Job", "DELETED", job(run_id))
        clock.now += KEEP_S

    for number in range(20):
        live(number)
    tracemalloc.start()
    for number in range(20, 80):
        live(number)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert grown / 60 < 4_000  # a slim record, no pods
