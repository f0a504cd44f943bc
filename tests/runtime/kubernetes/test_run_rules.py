"""What RunSpec refuses and does on Kubernetes, against an API that fails on demand."""

import pytest

from runtime import kubernetes_run, run_rules
from runtime.errors import RunStateError
from runtime.image import ResolvedImage
from runtime.kubernetes_record import ClusterRecord
from runtime.states import RunState
from tests.runtime.kubernetes.fake_api import BREAK, FakeApi
from tests.runtime.kubernetes.placed_runs import (
    INPUTS,
    NAMESPACE,
    RECORD,
    read,
)

pytestmark = pytest.mark.usefixtures("placing")


def test_a_placed_attempt_is_queued_and_has_its_image_by_digest(record: ClusterRecord) -> None:
    outs = run_rules.place_attempt(INPUTS)

    assert outs == {"image": "example.org/rl@sha256:main", "notice": ""}
    assert read(record).state is RunState.QUEUED


def test_a_later_attempt_keeps_the_image_of_the_first(
    record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_rules.place_attempt(INPUTS)
    record.advance(RunState.STOPPED, attempt=1)
    moved = ResolvedImage(image="example.org/rl@sha256:moved")
    monkeypatch.setattr(kubernetes_run, "resolve_image", lambda *_: moved)

    same = run_rules.place_attempt({**INPUTS, "attempt": 2})
    record.advance(RunState.STOPPED, attempt=2)
    other = run_rules.place_attempt({**INPUTS, "attempt": 3, "imageTag": "v2"})

    assert same["image"] == "example.org/rl@sha256:main"
    assert other["image"] == "example.org/rl@sha256:moved"


def test_an_image_that_keeps_its_tag_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ResolvedImage(image="example.org/rl:main", notice="no registry")
    monkeypatch.setattr(kubernetes_run, "resolve_image", lambda *_: kept)
    assert run_rules.place_attempt(INPUTS)["notice"] == "no registry"

    later = ResolvedImage(image="example.org/rl@sha256:2")
    monkeypatch.setattr(kubernetes_run, "resolve_image", lambda *_: later)
    assert run_rules.place_attempt(INPUTS)["image"] == "example.org/rl@sha256:2"


def test_a_run_that_is_stopped_while_its_image_is_resolved_does_not_start(
    record: ClusterRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: object) -> ResolvedImage:
        record.advance(RunState.STOPPED, attempt=1, reason="stopped by hand")
        return ResolvedImage(image="example.org/rl@sha256:main")

    monkeypatch.setattr(kubernetes_run, "resolve_image", resolve)

    with pytest.raises(RunStateError, match=r"attempt 1 is over \(STOPPED: stopped by hand\)"):
        run_rules.place_attempt(INPUTS)


@pytest.mark.parametrize(
    ("phase", "words"),
    [("Terminating", "namespace lab of cluster lab is Terminating"), (None, "does not exist")],
)
def test_a_namespace_that_takes_nothing_refuses_a_run(
    fake: FakeApi, phase: str | None, words: str
) -> None:
    del fake.objects[NAMESPACE]
    if phase is not None:
        fake.put(NAMESPACE, {"status": {"phase": phase}})

    assert words in str(run_rules.refusal({}, INPUTS))


def test_a_caller_who_may_not_see_namespaces_is_not_refused(fake: FakeApi) -> None:
    del fake.objects[NAMESPACE]
    fake.on_change = lambda method, path: (
        fake.fail("GET", NAMESPACE, 403, reason="Forbidden", message="no")
        if path == RECORD
        else None
    )

    assert run_rules.refusal({}, INPUTS) is None


def test_an_api_that_is_away_refuses_a_run_in_words(fake: FakeApi) -> None:
    fake.fail("GET", "/", BREAK, times=20)

    assert "does not answer" in str(run_rules.refusal({}, INPUTS))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"configKeys": {"max_steps": "b"}, "configDigest": "d2"}, "changed: max_steps."),
        ({"imageTag": "v2", "manifestDigest": "m2"}, "changed: paddock:imageTag."),
        ({"claim": "other"}, "changed: paddock:volume, or"),
        ({"resumeFrom": "run-0"}, "paddock:resumeFrom"),
        ({"manifestDigest": "m2"}, "what the cluster stack offers, or paddock's version"),
    ],
)
def test_a_changed_setting_of_a_live_run_is_named(change: dict, words: str) -> None:
    run_rules.place_attempt(INPUTS)

    reason = str(run_rules.refusal(INPUTS, {**INPUTS, **change}))

    assert words in reason
    assert "Nothing was touched" in reason


def test_a_run_that_is_over_does_not_start_again(record: ClusterRecord) -> None:
    run_rules.place_attempt(INPUTS)
    record.advance(RunState.COMPLETED, attempt=1)

    assert "is over (COMPLETED)" in str(run_rules.refusal({}, INPUTS))
    assert "is over (COMPLETED)" in str(run_rules.refusal(INPUTS, INPUTS))
    assert run_rules.refusal(INPUTS, {**INPUTS, "attempt": 2}) is None


def test_a_live_run_may_be_raised_to_a_later_attempt() -> None:
    run_rules.place_attempt(INPUTS)

    assert run_rules.refusal(INPUTS, {**INPUTS, "attempt": 2}) is None
    assert "still QUEUED" in str(run_rules.refusal({}, {**INPUTS, "attempt": 2}))
