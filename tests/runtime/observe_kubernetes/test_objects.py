"""Objects of a real cluster are read into facts, and judged by them."""

import pytest

from runtime.observe.kubernetes.causes import find_causes
from runtime.observe.kubernetes.events import EventFold
from runtime.observe.kubernetes.facts import PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.observe.kubernetes.objects import job_fact, pod_fact, wrapper_end
from tests.runtime.observe_kubernetes.runs_seen import SEEN

PODS = {one.run_id: one for one in map(pod_fact, SEEN["pods"]) if one is not None}
JOBS = {one.run_id: one for one in map(job_fact, SEEN["jobs"]) if one is not None}


def seen(run_id: str, *, after_s: float = 3600) -> RunFacts:
    """Return the facts of one run of the file, an hour later."""
    pods = (PODS[run_id],) if run_id in PODS else ()
    begun = PODS["done"].created or 0.0
    return RunFacts(run_id=run_id, attempt=1, time=begun + after_s, pods=pods, jobs=(JOBS[run_id],))


def launched(run_id: str) -> LaunchedRun:
    pod = LaunchedPod(key="trainer-0-0", component="trainer-0", role="trainer")
    return LaunchedRun(run_id=run_id, attempt=1, pods=(pod,))


def folded(name: str) -> EventFold:
    fold = EventFold()
    for event in SEEN["events"]:
        if event["involvedObject"]["name"] == name:
            fold.add(event)
    return fold


@pytest.mark.parametrize(
    ("run_id", "words"),
    [
        ("exit2", "trainer-0 (pod exit2-0-grfhm on n0) exited with code 2"),
        ("oom", "was OOMKilled: it went over its memory limit of 64Mi"),
        ("initfail", "could not be prepared: model.name: field required"),
        ("nocmd", "exited with code 128 (StartError): failed to create containerd task"),
        ("badname", "cannot have the image primeintellect/Prime RL:::x (InvalidImageName): Failed"),
        ("wrongtag", "cannot pull the image primeintellect/prime-rl:no-such-tag (ImagePullBack"),
        ("noenv", 'cannot be created (CreateContainerConfigError): secret "nope" not found'),
        ("deadline", "its Job failed (DeadlineExceeded): Job was active longer than specified"),
        ("deleted", "its Job failed (BackoffLimitExceeded): Job has reached the specified"),
    ],
)
def test_a_real_pod_tells_why_it_failed(run_id: str, words: str):
    causes = find_causes(seen(run_id), launched(run_id))

    assert words in causes[0].text()


@pytest.mark.parametrize("run_id", ["done", "killed", "nogpu", "nomount"])
def test_a_real_pod_that_did_not_fail_has_no_cause(run_id: str):
    assert find_causes(seen(run_id), launched(run_id)) == []


@pytest.mark.parametrize("run_id", ["wrongtag", "noenv"])
def test_what_may_still_start_is_given_time(run_id: str):
    assert find_causes(seen(run_id, after_s=100), launched(run_id)) == []


def test_a_tag_that_cannot_be_had_fails_within_five_minutes():
    assert find_causes(seen("wrongtag", after_s=250), launched("wrongtag"))


def test_the_scheduler_s_own_words_are_kept():
    pod = PODS["nogpu"]

    assert not pod.is_scheduled
    assert "1 Insufficient nvidia.com/gpu" in pod.schedule_message
    assert pod.num_gpus == 64


def test_a_wrapper_s_word_comes_with_the_pod():
    pod = PODS["done"]

    assert pod.main.end is not None
    assert pod.main.end.end_mark
    assert pod.key == "trainer-0-0"
    assert pod.job == "done"


def test_events_tell_a_failed_pull_and_a_volume_in_trouble():
    pull = folded(PODS["wrongtag"].name).pull()

    assert not pull.is_pulling
    assert pull.failing_since is not None
    assert pull.message.startswith('Failed to pull image "primeintellect/prime-rl:no-such-tag"')
    assert 'configmap "nope" not found' in folded(PODS["nomount"].name).trouble


@pytest.mark.parametrize("text", [None, "", "killed", "{", "[1]", '{"outcome": 3}', '{"a": 1}'])
def test_other_words_than_a_wrapper_s_are_none(text: str | None):
    assert wrapper_end(text) is None


def test_a_pod_of_nobody_s_run_is_no_fact():
    assert pod_fact({"metadata": {"name": "dns", "labels": {"app": "dns"}}}) is None


def test_a_deleted_pod_s_time_is_when_it_was_asked_for():
    pod: PodFact | None = pod_fact(
        {
            "metadata": {
                "labels": {"paddock.dev/run": "run-one", "paddock.dev/attempt": "2"},
                "deletionTimestamp": "2026-12-01T10:01:00Z",
                "deletionGracePeriodSeconds": 60,
            },
            "spec": {"containers": []},
            "status": {"phase": "Running"},
        }
    )

    assert pod is not None
    assert pod.deletion_asked == 1796119200.0
    assert pod.attempt == 2
