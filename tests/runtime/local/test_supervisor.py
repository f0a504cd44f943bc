"""What the supervisor says of a run that it cannot look at, and how long it waits for an update."""

from dataclasses import replace
from pathlib import Path

import pytest

from runtime import claims, local_rules, naming
from runtime.control.projects import RunFolder
from runtime.processes import ProcessId, this_process
from runtime.supervisor import Supervisor
from runtime.supervisor_wire import INTERRUPTED_S, StartRun
from tests.runtime.local.local_runs import Local

DEAD = ProcessId(pid=2**22 + 1, start_ticks=1)


def test_a_disk_that_stays_full_is_logged_once_and_again_after_it_was_not(
    local: Local, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    run = local.run()
    claim = claims.claim(run, num_slots=1, num_ports=0, owner=this_process())
    supervisor = Supervisor(local.request(run), claim, ("",))
    full, other = OSError(28, "No space left on device"), OSError(5, "Input/output error")
    looks = iter([full, full, other, None, other, other])

    def observe() -> None:
        error = next(looks)
        if error is not None:
            raise error

    monkeypatch.setattr(supervisor, "_observe", observe)

    assert [supervisor._look() for _ in range(6)] == [None] * 6

    assert [str(record.args) for record in caplog.records] == [
        str((error,)) for error in (full, other, other)
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"starter": this_process()}, 60.0),
        ({"starter": DEAD}, INTERRUPTED_S),
        ({"starter": DEAD, "is_repeated": True}, 60.0),
    ],
)
def test_a_killed_update_is_waited_for_where_a_control_plane_repeats_it(
    local: Local, changes: dict[str, object], expected: float
):
    request = replace(local.request(local.run()), **changes)  # type: ignore[arg-type]  # by case

    assert request.patience_s(is_busy=False) == expected


def test_what_a_server_brings_up_is_repeated_by_it(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    checkout, asked = Path(__file__).parents[3], list[StartRun]()
    monkeypatch.setattr(local_rules, "start_run", asked.append)
    run = local.run()
    inputs = {
        "statePath": str(run.state_path),
        "runPath": str(run.run_path),
        "runId": run.run_id,
        "attempt": 1,
        "configDigest": "d1",
        "numGpus": 1,
        "numPorts": 1,
    }

    local_rules.place_attempt(inputs)
    folder = RunFolder(path=tmp_path / "project", run_id=run.run_id)
    environ = folder.open_project(checkout, {"HOME": str(tmp_path)}).environment
    monkeypatch.setenv(naming.ENV_REPEATED_UPDATE, environ[naming.ENV_REPEATED_UPDATE])
    local_rules.place_attempt(inputs)

    assert [request.is_repeated for request in asked] == [False, True]
