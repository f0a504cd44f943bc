"""Names and states: run ids, slugs, and which state may follow which."""

import pytest

from runtime.naming import component_name, is_run_id, new_run_id, slug
from runtime.states import RunState, may_follow


@pytest.mark.parametrize("text", ["run-123", "abc", "a" * 53])
def test_run_ids(text: str) -> None:
    assert is_run_id(text)


@pytest.mark.parametrize(
    "text", ["ab", "1run", "Run-1", "run_1", "run-", "a" * 54, "", "run 1", "r\u00fcn", "run-1\n"]
)
def test_what_is_no_run_id(text: str) -> None:
    assert not is_run_id(text)


def test_new_run_ids_are_run_ids_and_differ() -> None:
    made = {new_run_id() for _ in range(50)}

    assert len(made) == 50
    assert all(is_run_id(run_id) for run_id in made)


@pytest.mark.parametrize(
    "text", ["A" * 63, "x" * 64, "9lives", "a_b", "a b", "\U0001f600", "-", ""]
)
def test_a_slug_is_a_dns_label_of_any_text(text: str) -> None:
    made = slug(text)

    assert 0 < len(made) <= 63
    assert made[0].isalpha()
    assert made.replace("-", "a").isalnum()
    assert made == made.lower()
    assert not made.endswith("-")


def test_texts_that_clean_up_alike_get_different_slugs() -> None:
    assert len({slug(text) for text in ("a_b", "a.b", "a-b", "A-b", "a--b")}) == 5


def test_env_servers_of_sources_that_clean_up_alike_have_different_names() -> None:
    names = {component_name("env", split="train", source=source) for source in ("a.b", "a_b")}

    assert len(names) == 2


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        (RunState.QUEUED, RunState.PENDING, True),
        (RunState.QUEUED, RunState.RUNNING, True),
        (RunState.QUEUED, RunState.STOPPED, True),
        (RunState.CREATING, RunState.PENDING, True),
        (RunState.PENDING, RunState.QUEUED, False),
        (RunState.RUNNING, RunState.CREATING, False),
        (RunState.RUNNING, RunState.PAUSING, True),
        (RunState.RUNNING, RunState.COMPLETED, True),
        (RunState.PAUSING, RunState.PAUSED, True),
        (RunState.PAUSED, RunState.RUNNING, False),
        (RunState.COMPLETED, RunState.RUNNING, False),
        (RunState.FAILED, RunState.STOPPED, False),
        (RunState.RUNNING, RunState.RUNNING, False),
    ],
)
def test_transitions(before: RunState, after: RunState, allowed: bool) -> None:
    assert may_follow(before, after) is allowed
