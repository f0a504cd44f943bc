"""Workers whose engine is a script: how many at a time, the watchdog, and what it is told."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.control.failures import PROVISION_TIMEOUT
from runtime.control.operations import (
    OperationBusyError,
    OperationKind,
    OperationState,
    OperatorLimits,
)
from runtime.control.operator import ProcessOperator
from runtime.control.projects import PerformedReport
from runtime.control.store.store import Store
from runtime.control.worker import report_of
from runtime.processes import identify, session_processes
from tests.engine.sites import ROOT
from tests.runtime.control.operating.operations import (
    ended,
    folder_of,
    operation,
    scripted_environment,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.control

UP, DESTROY = OperationKind.UP, OperationKind.DESTROY
CANARY = "canary-91ab"
RUN_IDS = [f"run-{number}" for number in range(4)]
NOTES = 'echo "$@" >> "$NOTES/argv"; env >> "$NOTES/env"; cat >> "$NOTES/stdin"'
LIST = 'case "$1 $2" in "stack ls") echo "[]"; exit 0;; esac'
MakeOperator = Callable[..., ProcessOperator]


@pytest.fixture
def make_operator(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeOperator:
    """Return a maker of operators whose engine is a script; its notes are in the test's folder."""
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path / "cache"))

    def make(script: str, **limits: float) -> ProcessOperator:
        database = f"postgresql://me:{CANARY}@db/paddock"
        chosen = OperatorLimits(**{"drain_s": 1.0, **limits})  # type: ignore[arg-type] # as given
        environ = scripted_environment(tmp_path, script, PADDOCK_DATABASE=database)
        return ProcessOperator(sqlite_store, checkout=ROOT, environ=environ, limits=chosen)

    return make


def test_so_many_operations_at_a_time_and_the_others_wait(
    make_operator: MakeOperator, tmp_path: Path
) -> None:
    script = """
    mkdir "$NOTES/live.$$"; ls -d "$NOTES"/live.* | wc -l >> "$NOTES/counts"
    sleep 0.3; rmdir "$NOTES/live.$$"; echo "[]" """
    operator = make_operator(script, num_workers=2)

    for run_id in RUN_IDS:
        operator.start(operation(OperationKind.RECOVER, run_id))
    waiting = operator.state(RUN_IDS[-1])
    reports = [ended(operator, run_id) for run_id in RUN_IDS]

    assert waiting is not None
    assert waiting.state is OperationState.RUNNING
    assert {report.state for report in reports} == {OperationState.DONE}
    assert max(map(int, (tmp_path / "counts").read_text().split())) <= 2


def test_an_engine_that_hears_no_signal_is_killed_at_the_limit(
    make_operator: MakeOperator, tmp_path: Path
) -> None:
    script = """
    trap "" INT TERM; touch "$NOTES/deaf"; while true; do sleep 0.1; done"""
    operator = make_operator(script, operation_s=6.0, grace_s=1.0)

    operator.start(operation(OperationKind.RECOVER, "deaf"))
    wait_for(lambda: (tmp_path / "deaf").exists())
    report = ended(operator, "deaf")

    assert (report.state, report.code) == (OperationState.FAILED, "stack_late")
    found = folder_of("deaf").read()
    assert found is not None
    assert found.worker is not None
    assert session_processes(found.worker) == frozenset()


@pytest.mark.parametrize(("kind", "code"), [(UP, PROVISION_TIMEOUT), (DESTROY, "stack_late")])
def test_what_a_dead_server_began_is_late_at_its_limit_too(
    make_operator: MakeOperator, kind: OperationKind, code: str
) -> None:
    folder = folder_of("late")
    folder.make()
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    worker = identify(process.pid)
    running = report_of(operation(kind, "late"), OperationState.RUNNING)
    folder.write(PerformedReport(report=running, worker=worker, ends_by=time.time() - 1))

    report = make_operator("exit 0").state("late")

    assert report is not None
    assert (report.state, report.code) == (OperationState.FAILED, code)
    assert report.is_retryable is (kind is DESTROY)
    assert process.wait(60) == -signal.SIGKILL


def test_an_operation_that_waits_for_its_turn_is_interrupted(make_operator: MakeOperator) -> None:
    operator = make_operator("exec sleep 600", num_workers=1, grace_s=1.0)
    operator.start(operation(OperationKind.RECOVER, "first"))
    operator.start(operation(OperationKind.RECOVER, "second"))

    operator.interrupt("second")
    second = ended(operator, "second")
    operator.interrupt("first")
    first = ended(operator, "first")

    assert (second.code, first.code) == ("interrupted", "interrupted")
    assert "before its turn" in second.message


def test_a_secret_reaches_the_engine_by_stdin_only_and_the_database_never(
    make_operator: MakeOperator, tmp_path: Path
) -> None:
    operator = make_operator(f"{NOTES}\n{LIST}")
    settings = {"cluster": "local", "configText": "name = 'one'"}

    operator.start(
        operation(OperationKind.MAKE, "told", settings=settings, secrets={"KEY": CANARY})
    )
    report = ended(operator, "told")

    assert report.state is OperationState.DONE, report.message
    assert (
        "config set --secret --path paddock:env.KEY --stack told" in (tmp_path / "argv").read_text()
    )
    assert CANARY in (tmp_path / "stdin").read_text()
    for name in ("argv", "env"):
        assert CANARY not in (tmp_path / name).read_text()
    folder = folder_of("told").path
    assert f"PULUMI_HOME={folder}" in (tmp_path / "env").read_text()
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if CANARY.encode() in path.read_bytes()]
    assert (folder / "operation.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_worker_that_cannot_begin_is_a_failure_not_a_hang(
    make_operator: MakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make_operator("exit 0")
    monkeypatch.setattr(sys, "executable", "/bin/false")

    operator.start(operation(OperationKind.UP, "false"))
    report = ended(operator, "false")

    assert (report.code, report.is_retryable) == ("interrupted", True)
    operator.close()
    with pytest.raises(OperationBusyError):
        operator.start(operation(OperationKind.UP, "false"))
