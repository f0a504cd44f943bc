"""Workers whose engine is a script: how many at a time, the watchdog, and what it is told."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from runtime.control import kept_settings
from runtime.control.failures import PROVISION_TIMEOUT
from runtime.control.operations import (
    OperationBusyError,
    OperationKind,
    OperationState,
    OperatorLimits,
)
from runtime.control.operator import ProcessOperator
from runtime.control.projects import PerformedReport
from runtime.control.store import stack_files
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
SETTINGS = {"cluster": "local", "configText": "name = 'one'"}
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
    wait_for(lambda: folder_of("first").read() is not None)  # it has the turn
    operator.start(operation(OperationKind.RECOVER, "second"))

    operator.interrupt("second")
    second = ended(operator, "second")
    operator.interrupt("first")
    first = ended(operator, "first")

    assert (second.code, first.code) == ("interrupted", "interrupted")
    assert "before its turn" in second.message


def test_a_database_that_is_away_for_a_moment_fails_no_operation(
    make_operator: MakeOperator, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_settings, "_RETRY_S", 0.05)
    for name in ("get_file", "put_file"):
        monkeypatch.setattr(stack_files, name, away_at_first(getattr(stack_files, name)))
    operator = make_operator(f"{LIST}; exit 0")

    operator.start(operation(OperationKind.MAKE, "run-0", settings=SETTINGS))
    report = ended(operator, "run-0")

    assert report.state is OperationState.DONE, report
    with sqlite_store.read() as tx:
        assert stack_files.get_file(tx, "run-0") is not None


def away_at_first(act: Callable[..., object]) -> Callable[..., object]:
    """Return an act on the database that is away for the first two times."""
    left = [1, 2]

    def call(*arguments: object) -> object:
        if left:
            left.pop()
            raise OperationalError("SELECT", {}, ConnectionError("the database starts up"))
        return act(*arguments)

    return call


def test_a_database_that_stays_away_fails_the_operation_that_waits_for_it(
    make_operator: MakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {}, ConnectionError("the database is gone"))

    monkeypatch.setattr(kept_settings, "PATIENCE_S", 0.0)
    monkeypatch.setattr(stack_files, "get_file", fail)
    operator = make_operator(f"{LIST}; exit 0")

    operator.start(operation(OperationKind.MAKE, "run-0", settings=SETTINGS))
    report = ended(operator, "run-0")

    assert report.state is OperationState.FAILED


def test_an_operation_that_gets_no_thread_is_not_under_way(
    make_operator: MakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make_operator(f"{LIST}; exit 0")

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(OperationBusyError, match="can't start new thread"):
            operator.start(operation(OperationKind.MAKE, "run-0", settings=SETTINGS))
    assert operator.state("run-0") is None
    operator.start(operation(OperationKind.MAKE, "run-0", settings=SETTINGS))

    assert ended(operator, "run-0").state is OperationState.DONE


def test_a_secret_reaches_the_engine_by_stdin_only_and_the_database_never(
    make_operator: MakeOperator, tmp_path: Path
) -> None:
    operator = make_operator(f"{NOTES}\n{LIST}")

    operator.start(
        operation(OperationKind.MAKE, "told", settings=SETTINGS, secrets={"KEY": CANARY})
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
