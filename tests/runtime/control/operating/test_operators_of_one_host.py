"""Two servers of one host have the folders of runs together: each finds what the other did."""

from pathlib import Path

import pytest

from runtime.control.operations import OperationBusyError, OperationKind, OperationState
from runtime.control.operator import ProcessOperator
from runtime.control.store import leases
from runtime.control.store.store import Store
from tests.engine.sites import ROOT
from tests.runtime.control.operating.operations import ended, operation, scripted_environment
from tests.waiting import wait_for

pytestmark = pytest.mark.control

RUN = "shared"
RECOVER, DESTROY = OperationKind.RECOVER, OperationKind.DESTROY
HELD = 'touch "$NOTES/asked"; while [ -e "$NOTES/hold" ]; do sleep 0.1; done; echo "[]"'


@pytest.fixture
def servers(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[ProcessOperator]:
    """Return the operators of two servers; their engine is held while there is a file `hold`."""
    environ = scripted_environment(tmp_path, HELD)
    for name in ("PADDOCK_HOME", "PADDOCK_CACHE"):
        monkeypatch.setenv(name, environ[name])
    return [ProcessOperator(sqlite_store, checkout=ROOT, environ=environ) for _ in range(2)]


def test_a_server_that_worked_on_a_run_finds_what_another_does_with_it_later(
    servers: list[ProcessOperator], tmp_path: Path
) -> None:
    first, second = servers
    first.start(operation(RECOVER, RUN))
    own = ended(first, RUN)
    (tmp_path / "asked").unlink()
    (tmp_path / "hold").touch()

    second.start(operation(DESTROY, RUN))
    wait_for((tmp_path / "asked").exists)
    under_way = first.state(RUN)
    with pytest.raises(OperationBusyError):
        first.start(operation(RECOVER, RUN))
    (tmp_path / "hold").unlink()
    theirs = ended(second, RUN)

    assert (own.kind, own.state) == (RECOVER, OperationState.DONE)
    assert under_way is not None
    assert (under_way.kind, under_way.state) == (DESTROY, OperationState.RUNNING)
    assert first.state(RUN) == theirs


def test_what_a_server_did_last_is_told_though_another_worked_on_the_run_before(
    servers: list[ProcessOperator], sqlite_store: Store
) -> None:
    first, second = servers
    first.start(operation(RECOVER, RUN))
    ended(first, RUN)
    second.start(operation(RECOVER, RUN))
    ended(second, RUN)
    with sqlite_store.write() as connection:
        lost = leases.acquire(connection, "shard", "other", 30)
        assert lost is not None
        leases.release(connection, lost)

    first.start(operation(DESTROY, RUN, lease=lost))  # it never came to be written into the folder
    report = ended(first, RUN)

    assert (report.kind, report.code) == (DESTROY, "lost_lease")
    assert first.state(RUN) == report
