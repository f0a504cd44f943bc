"""What the supervisor says of a run that it cannot look at."""

import pytest

from runtime import claims
from runtime.processes import this_process
from runtime.supervisor import Supervisor
from tests.runtime.local.local_runs import Local


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
