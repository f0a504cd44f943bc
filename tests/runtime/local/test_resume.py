"""`paddock resume` of a local run whose machine went down under it; the engine is stood in for."""

import os
import signal

import pytest

from runtime.commands import stack
from runtime.control import stacks
from runtime.errors import RunStateError
from runtime.observe.local import run_processes
from runtime.states import RunState
from tests.runtime.local.local_runs import ENDLESS, Local, programs
from tests.runtime.local.test_crashes import supervisor_pid, until_running
from tests.waiting import wait_for

pytestmark = pytest.mark.crash


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the settings that a resume makes, in place of a stack's file."""
    made: dict[str, str] = {}
    monkeypatch.setattr(stack, "open_project", lambda: None)
    monkeypatch.setattr(stacks, "list_stacks", lambda _project: ["run-one"])
    monkeypatch.setattr(stacks, "up", lambda *_: None)
    monkeypatch.setattr(
        stacks, "set_setting", lambda _project, _stack, key, text: made.update({key: text})
    )
    return made


def test_a_run_whose_supervisor_died_is_over_and_resumed(
    local: Local, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    run = local.up(programs(**ENDLESS))
    monkeypatch.setattr(stack, "locate_run", lambda _project, _run_id: run)
    until_running(local, run)
    with pytest.raises(RunStateError, match="is RUNNING"):
        stack.resume("run-one")

    os.kill(supervisor_pid(run), signal.SIGKILL)
    wait_for(lambda: not run_processes(run))
    stack.resume("run-one")

    assert settings == {"attempt": "2"}
    assert local.record(run).state is RunState.FAILED
    assert not local.leftovers(run)
