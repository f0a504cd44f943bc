"""A run that is over stays over; a later attempt is asked for openly."""

import json
from collections.abc import Iterator

import pytest

from runtime.claims import read_claims
from runtime.observe.local import run_processes
from runtime.states import RunState
from tests.engine.sites import COMPONENTS, Site

pytestmark = pytest.mark.engine

RUN = "attempts"


@pytest.fixture(scope="module")
def over(shared_site: Site) -> Iterator[Site]:
    """Yield the site with a run that has completed; the tests go on from one to the next."""
    shared_site.up(RUN, "quick")
    shared_site.until(RUN, RunState.COMPLETED)
    yield shared_site
    shared_site.pulumi("destroy", "-s", RUN)
    shared_site.assert_nothing_left()


@pytest.mark.parametrize("command", ["preview", "up"])
def test_up_after_completed_is_refused_with_both_fixes(over: Site, command: str) -> None:
    result = over.pulumi(command, "-s", RUN, expect=None)

    assert result.code != 0
    assert "is over (COMPLETED)" in result.text
    assert f"paddock resume {RUN}" in result.text
    assert "pulumi config set paddock:attempt 2" in result.text
    assert "Traceback" not in result.text
    assert over.record(RUN).attempt == 1


def test_resume_makes_the_second_attempt(over: Site) -> None:
    settings = over.project.settings_file(RUN)
    settings.write_text(f"# written by a person\n{settings.read_text()}")

    over.paddock("resume", RUN)

    over.until(RUN, RunState.COMPLETED)
    assert "# written by a person" in settings.read_text()
    assert over.record(RUN).attempt == 2
    outputs = over.pulumi("stack", "output", "-s", RUN, "--json").out
    assert json.loads(outputs)["attempt"] == 2


def test_a_lower_attempt_is_refused(over: Site) -> None:
    over.pulumi("config", "set", "paddock:attempt", "1", "-s", RUN)

    result = over.pulumi("up", "-s", RUN, expect=None)

    assert result.code != 0
    assert "attempts is at attempt 2, attempt 1 is past" in result.text
    assert "Traceback" not in result.text


def test_the_attempt_can_be_raised_by_hand(over: Site) -> None:
    over.pulumi("config", "set", "paddock:attempt", "3", "-s", RUN)

    over.pulumi("up", "-s", RUN)

    over.until(RUN, RunState.COMPLETED)
    assert over.record(RUN).attempt == 3
    logs = over.local_run(RUN).directory.path / "logs"
    assert {path.name for path in logs.glob("attempt_*")} == {"attempt_1", "attempt_2", "attempt_3"}


def test_resume_refuses_a_live_run(over: Site) -> None:
    over.write_toml(RUN, "long")
    over.pulumi("config", "set", "paddock:attempt", "4", "-s", RUN)
    over.pulumi("up", "-s", RUN)
    run = over.local_run(RUN, 4)
    before = over.pids(run)

    result = over.paddock("resume", RUN, expect=None)

    assert result.code != 0
    assert "only a run that is over or was preempted can be resumed" in result.err
    assert over.pids(run) == before


def test_a_raised_attempt_of_a_live_run_ends_the_old_one_first(over: Site) -> None:
    over.pulumi("config", "set", "paddock:attempt", "5", "-s", RUN)

    over.pulumi("up", "-s", RUN)

    over.until(RUN, RunState.RUNNING)
    changes = [(one.attempt, one.state, one.reason) for one in over.record(RUN).times[-6:]]
    assert (4, RunState.STOPPED, "ended for attempt 5") in changes
    assert [claim.attempt for claim in read_claims(over.state)] == [5]
    assert run_processes(over.local_run(RUN, 4)) == frozenset()
    assert set(over.pids(over.local_run(RUN, 5))) == set(COMPONENTS)
