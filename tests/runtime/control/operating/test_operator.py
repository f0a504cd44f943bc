"""Operations on the real engine, each in a process of its own, also after a crash."""

import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from runtime.control.operations import (
    CAPACITY,
    ENGINE_ALIVE,
    OperationBusyError,
    OperationKind,
    OperationState,
)
from runtime.control.store import leases, stack_files
from runtime.processes import ProcessId, is_alive, session_processes
from runtime.states import RunState
from tests.runtime.control.operating.operations import (
    Operating,
    ended,
    folder_of,
    operation,
)
from tests.secret_search import files_with_value
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

CANARY = "canary-59c1f0d2"


def stored_file(operating: Operating, run_id: str) -> str | None:
    with operating.store.read() as connection:
        return stack_files.get_file(connection, run_id)


def worker_of(run_id: str) -> ProcessId:
    def running() -> ProcessId | None:
        found = folder_of(run_id).read()
        is_it = found is not None and found.report.state is OperationState.RUNNING
        return found.worker if found is not None and is_it else None

    worker = wait_for(running)
    assert worker is not None
    return worker


def until_engine_has_the_lock(operating: Operating, run_id: str) -> None:
    locks = operating.site.backend / ".pulumi/locks/organization/paddock" / run_id
    wait_for(lambda: list(locks.glob("*.json")))


def test_a_stack_is_made_brought_up_destroyed_and_removed(operating: Operating) -> None:
    checkout_before = sorted(path.name for path in (Path(__file__).parents[4] / "stacks").iterdir())

    made = operating.make("whole", secrets={"HF_TOKEN": CANARY})
    stored = yaml.safe_load(stored_file(operating, "whole") or "")
    up = operating.perform(OperationKind.UP, "whole")
    operating.site.until("whole", RunState.RUNNING)
    destroyed = operating.perform(OperationKind.DESTROY, "whole")
    removed = operating.perform(OperationKind.REMOVE, "whole")
    again = operating.perform(OperationKind.REMOVE, "whole")

    done = [report.state for report in (made, up, destroyed, removed, again)]
    assert done == [OperationState.DONE] * 5
    assert set(stored["config"]["paddock:env"]["HF_TOKEN"]) == {"secure"}
    assert operating.site.record("whole").state is RunState.STOPPED
    assert stored_file(operating, "whole") is None
    assert not folder_of("whole").path.exists()
    assert "whole" not in operating.site.pulumi("stack", "ls").out
    assert files_with_value(operating.site.folder, CANARY) == []
    after = sorted(path.name for path in (Path(__file__).parents[4] / "stacks").iterdir())
    assert after == checkout_before


def test_a_make_that_fails_leaves_nothing(operating: Operating) -> None:
    settings = {"cluster": "local", "configText": "name = 1", "noSuchSetting": "1"}

    report = operating.perform(
        OperationKind.MAKE, "unmade", settings=settings, secrets={"HF_TOKEN": CANARY}
    )

    assert report.state is OperationState.FAILED
    assert "noSuchSetting" in report.message
    assert not report.is_retryable
    assert not folder_of("unmade").path.exists()
    assert "unmade" not in operating.site.pulumi("stack", "ls").out
    assert files_with_value(operating.site.folder, CANARY) == []


def test_an_up_without_room_says_so_by_its_code(operating: Operating) -> None:
    for run_id in ("first", "second", "third"):
        operating.make(run_id)
    for run_id in ("first", "second"):
        operating.perform(OperationKind.UP, run_id)

    report = operating.perform(OperationKind.UP, "third")

    assert report.code == CAPACITY
    assert (
        report.message == "needs 2 slots, 0 of 4 are free: wait for a run to end, or stop one"
        or ("needs 2 slots, 0 of 4 are free" in report.message)
    )
    assert report.is_retryable
    for run_id in ("first", "second", "third"):
        assert operating.perform(OperationKind.DESTROY, run_id).state is OperationState.DONE
        operating.perform(OperationKind.REMOVE, run_id)


def test_one_operation_a_run_at_a_time(operating: Operating) -> None:
    operating.make("busy", "slow")
    operating.start(OperationKind.UP, "busy")

    with pytest.raises(OperationBusyError):
        operating.start(OperationKind.DESTROY, "busy")
    worker_of("busy")
    with pytest.raises(OperationBusyError):
        operating.another().start(operation(OperationKind.DESTROY, "busy"))

    assert operating.end("busy").state is OperationState.DONE
    operating.perform(OperationKind.DESTROY, "busy")
    operating.perform(OperationKind.REMOVE, "busy")


def test_an_interrupt_ends_the_engine_and_leaves_no_lock(operating: Operating) -> None:
    operating.make("cut", "slow")
    operating.start(OperationKind.UP, "cut")
    until_engine_has_the_lock(operating, "cut")
    worker = worker_of("cut")

    operating.operator.interrupt("cut")
    report = operating.end("cut")

    assert report.code == "interrupted"
    assert report.is_retryable
    assert session_processes(worker) == frozenset()
    assert operating.perform(OperationKind.DESTROY, "cut").state is OperationState.DONE
    operating.perform(OperationKind.REMOVE, "cut")


def test_an_operation_outlives_its_server_and_is_found_by_the_next(operating: Operating) -> None:
    operating.make("left", "slow")
    operating.start(OperationKind.UP, "left")
    until_engine_has_the_lock(operating, "left")

    later = operating.another()  # what began it is not asked any more, as if it were dead
    first = later.state("left")
    report = ended(later, "left")

    assert first is not None
    assert first.state is OperationState.RUNNING
    assert report.state is OperationState.DONE
    assert operating.end("left").state is OperationState.DONE
    operating.perform(OperationKind.DESTROY, "left")
    operating.perform(OperationKind.REMOVE, "left")


def test_a_killed_worker_and_engine_are_recovered_from(operating: Operating) -> None:
    operating.make("killed", "slow")
    operating.start(OperationKind.UP, "killed")
    until_engine_has_the_lock(operating, "killed")
    worker = worker_of("killed")

    for process in session_processes(worker):
        os.kill(process.pid, signal.SIGKILL)
    report = operating.end("killed")
    recovered = operating.perform(OperationKind.RECOVER, "killed")
    destroyed = operating.perform(OperationKind.DESTROY, "killed")

    assert not is_alive(worker)
    assert (report.code, report.is_retryable) == ("interrupted", True)
    assert recovered.state is OperationState.DONE
    assert destroyed.state is OperationState.DONE
    operating.perform(OperationKind.REMOVE, "killed")


def test_a_living_engine_of_another_is_not_recovered_from(operating: Operating) -> None:
    operating.make("theirs", "slow")
    text = stored_file(operating, "theirs")
    assert text is not None
    site = operating.site
    site.project.settings_file("theirs").write_text(text)
    engine = site.start("pulumi", "up", "-s", "theirs", "--yes", "--skip-preview")
    until_engine_has_the_lock(operating, "theirs")

    report = operating.perform(OperationKind.RECOVER, "theirs")

    out, err = engine.communicate(timeout=60)
    assert engine.returncode == 0, out + err
    assert (report.code, report.is_retryable) == (ENGINE_ALIVE, True)
    operating.perform(OperationKind.DESTROY, "theirs")
    operating.perform(OperationKind.REMOVE, "theirs")
    site.project.settings_file("theirs").unlink()


def test_another_host_opens_a_stack_with_the_stored_settings(operating: Operating) -> None:
    operating.make("moved")
    folder_of("moved").remove()

    report = operating.another()
    report.start(operation(OperationKind.UP, "moved"))

    assert ended(report, "moved").state is OperationState.DONE
    report.start(operation(OperationKind.DESTROY, "moved"))
    ended(report, "moved")
    report.start(operation(OperationKind.REMOVE, "moved"))
    assert ended(report, "moved").state is OperationState.DONE


def test_no_engine_is_started_under_a_lost_lease(operating: Operating) -> None:
    with operating.store.write() as connection:
        lease = leases.acquire(connection, "shard", "one", 30)
        assert lease is not None
        leases.release(connection, lease)
        assert leases.acquire(connection, "shard", "other", 30)

    report = operating.make("fenced", lease=lease)

    assert report.code == "lost_lease"
    assert "fenced" not in operating.site.pulumi("stack", "ls").out
    folder_of("fenced").remove()


def test_close_lets_an_operation_go_on_alone(operating: Operating) -> None:
    operating.make("going", "slow")
    operating.start(OperationKind.UP, "going")
    until_engine_has_the_lock(operating, "going")

    begun = time.monotonic()
    operating.operator.close()

    assert time.monotonic() - begun < 60
    with pytest.raises(OperationBusyError):
        operating.start(OperationKind.DESTROY, "going")
    later = operating.another()
    assert ended(later, "going").state is OperationState.DONE
    for kind in (OperationKind.DESTROY, OperationKind.REMOVE):
        later.start(operation(kind, "going"))
        assert ended(later, "going").state is OperationState.DONE
