"""Kubelet's events tell a healthy pull from a failing one."""

from typing import Any

from runtime.observe.kubernetes.events import EventFold

IMAGE = "mirror/prime-rl:main"


def event(reason: str, message: str, minute: int, first: int | None = None) -> dict[str, Any]:
    begun = minute if first is None else first
    return {
        "reason": reason,
        "message": message,
        "firstTimestamp": f"2026-12-01T10:{begun:02}:00Z",
        "lastTimestamp": f"2026-12-01T10:{minute:02}:00Z",
    }


def pulling(minute: int, first: int | None = None) -> dict[str, Any]:
    return event("Pulling", f'Pulling image "{IMAGE}"', minute, first)


def pulled(minute: int) -> dict[str, Any]:
    return event("Pulled", f'Successfully pulled image "{IMAGE}" in 25m', minute)


def failed(minute: int, first: int | None = None) -> dict[str, Any]:
    return event("Failed", f'Failed to pull image "{IMAGE}": no route', minute, first)


def folded(*events: dict[str, Any]) -> EventFold:
    fold = EventFold()
    for one in events:
        fold.add(one)
    return fold


def test_a_pull_goes_on_until_it_is_done():
    assert folded(pulling(1)).pull().is_pulling
    assert not folded(pulling(1), pulled(26)).pull().is_pulling
    assert not folded(pulled(26), pulling(1)).pull().is_pulling


def test_a_failing_pull_counts_from_its_first_failure():
    pull = folded(pulling(1), failed(1), pulling(4, 1), failed(4, 1)).pull()

    assert not pull.is_pulling
    assert pull.failing_since == folded(failed(1)).pull().failing_since


def test_a_new_try_after_a_failure_is_a_pull():
    pull = folded(pulling(1), failed(1), pulling(2, 1)).pull()

    assert pull.is_pulling
    assert "no route" in pull.message


def test_a_pull_that_fails_after_a_long_healthy_while_is_a_new_trouble():
    first = folded(pulling(1), failed(1)).pull().failing_since
    later = folded(pulling(1), failed(1), pulling(2), failed(27)).pull().failing_since

    assert first is not None
    assert later == first + 26 * 60


def test_a_pull_that_came_through_forgets_its_failures():
    pull = folded(pulling(1), failed(1), pulling(2), pulled(3)).pull()

    assert pull.failing_since is None
    assert not pull.message


def test_events_without_times_are_no_trouble():
    fold = EventFold()

    assert not fold.add({"reason": "Scheduled", "message": "assigned"})
    assert fold.add({"reason": "FailedMount", "message": "x", "eventTime": None, "metadata": {}})
    assert fold.trouble == "x"
