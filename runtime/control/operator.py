"""Performs operations on runs' stacks, each in an OS process of its own (`runtime.control.worker`).

A worker has its own session, PULUMI_HOME and project folder, and outlives its server: what a dead
server on this host began is found in the run's folder. Where nothing outlives a server, as in a
container, its workers are interrupted before it ends. After every operation the stack's settings
file is copied into the store, from where any server restores it.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from runtime.control.backend import engine_service_environment
from runtime.control.failures import INTERRUPTED, failure_of
from runtime.control.kept_settings import KeptSettings, until_answered
from runtime.control.operations import (
    Operation,
    OperationBusyError,
    OperationKind,
    OperationReport,
    OperationState,
    OperatorLimits,
)
from runtime.control.projects import PerformedReport, RunFolder, run_folder
from runtime.control.store import leases, operations
from runtime.control.store.store import Store
from runtime.control.worker import WorkerRequest, failed_report, report_of
from runtime.control.worker_process import Watch, interrupt, is_performed, run_worker
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)
_MAX_REPORTS = 10_000
_NUM_LAST = 100
"""Of how many operations a closing server writes the end: more than end between two passes."""

_POLL_S = 0.1
_KILL_S = 5.0
"""How long it takes to kill what heard no interrupt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Live:
    operation: Operation
    thread: threading.Thread
    interrupted: threading.Event = field(default_factory=threading.Event)


class ProcessOperator:
    """The operator of one server; see `runtime.control.operations.Operator`."""

    def __init__(
        self,
        store: Store,
        *,
        checkout: Path,
        environ: Mapping[str, str],
        limits: OperatorLimits = OperatorLimits(),  # noqa: B008 - frozen
    ) -> None:
        """Keep the store and the checkout whose program is run."""
        self._store = store
        self._settings = KeptSettings(store)
        self._checkout = checkout
        self._environ = engine_service_environment(environ)
        self._limits = limits
        self._slots = threading.BoundedSemaphore(limits.num_workers)
        self._lock = threading.Lock()
        self._live: dict[str, _Live] = {}
        self._reports: OrderedDict[str, OperationReport] = OrderedDict()
        self._is_closing = False

    def start(self, operation: Operation) -> None:
        """Begin an operation; raises OperationBusyError while one of the same run is under way."""
        run_id = operation.run_id
        with self._lock:
            if self._is_closing:
                raise OperationBusyError(f"{run_id}: this server takes no more operations")
            if run_id in self._live or self._is_under_way(run_id):
                raise OperationBusyError(f"{run_id}: an operation of it is under way")
            thread = threading.Thread(
                target=self._perform, args=(run_id,), name=f"operation-{run_id}", daemon=True
            )
            self._live[run_id] = _Live(operation=operation, thread=thread)
            self._remember(report_of(operation, OperationState.RUNNING))
            try:
                thread.start()  # here, since `close` waits for all that it finds
            except RuntimeError as error:  # no more processes are allowed
                del self._live[run_id], self._reports[run_id]
                raise OperationBusyError(f"{run_id}: {error}") from None

    def state(self, run_id: str) -> OperationReport | None:
        """Return the newest operation that this server or another one on its host began."""
        with self._lock:
            known = self._reports.get(run_id)
            if run_id in self._live:
                return known
        folder = run_folder(run_id)
        found = folder.read()
        if found is None or (known is not None and not _is_newer(found.report, known)):
            return known
        if found.report.state is OperationState.RUNNING:
            if is_performed(folder, found):
                return found.report
            found = folder.read() or found  # it may have ended in between
        report = self._ended(folder, found)
        with self._lock:
            if run_id not in self._live:
                self._remember(report)
            return self._reports[run_id]

    def interrupt(self, run_id: str) -> None:
        """Ask the operation of a run to end early; no operation is fine."""
        with self._lock:
            live = self._live.get(run_id)
        if live is not None:
            live.interrupted.set()
            return
        found = run_folder(run_id).read()
        if found is not None and found.report.state is OperationState.RUNNING:
            interrupt(found)

    def close(self) -> None:
        """Take no more operations, and do with those under way as the limits say."""
        with self._lock:
            self._is_closing = True
            lives = list(self._live.values())
        if _join(lives, self._limits.drain_s) and self._limits.ends_operations:
            for live in lives:
                live.interrupted.set()
            _LOG.info("operations under way are interrupted, since they end with this server")
            _join(lives, self._limits.grace_s + _KILL_S)
        self._write_last_reports()

    def _write_last_reports(self) -> None:
        """Write how the last operations ended: no pass will, and other hosts cannot ask here.

        What was made and is not known to be would be taken for lost there, its secrets with it.
        """
        with self._lock:
            ended = [one for one in self._reports.values() if one.finished_at is not None]
        try:
            with self._store.write() as connection:
                for report in ended[-_NUM_LAST:]:
                    operations.finish(connection, report)
        except (PaddockError, DBAPIError) as error:
            _LOG.error("how the last operations ended was not stored: %s", error)

    def _is_under_way(self, run_id: str) -> bool:
        folder = run_folder(run_id)
        found = folder.read()
        is_running = found is not None and found.report.state is OperationState.RUNNING
        return found is not None and is_running and is_performed(folder, found)

    def _perform(self, run_id: str) -> None:
        with self._lock:
            live = self._live[run_id]
        try:
            report = self._run_in_turn(live)
        except Exception as error:  # the thread's boundary: the report is how it is told
            kind = live.operation.kind
            _LOG.exception("run %s: %s could not be performed", run_id, kind, extra={"run": run_id})
            failure = failure_of(
                error, live.operation.kind, secrets=live.operation.secrets.values()
            )
            report = failed_report(live.operation, failure.code, failure.message)
        if report.state is OperationState.FAILED:
            said = run_id, report.kind, report.code, report.message
            _LOG.warning("run %s: %s failed (%s): %s", *said, extra={"run": run_id})
        with self._lock:
            del self._live[run_id]
            self._remember(report)

    def _run_in_turn(self, live: _Live) -> OperationReport:
        while not self._slots.acquire(timeout=_POLL_S):
            if live.interrupted.is_set():
                return failed_report(live.operation, INTERRUPTED, "interrupted before its turn")
        try:
            return self._run(live)
        finally:
            self._slots.release()

    def _run(self, live: _Live) -> OperationReport:
        operation = live.operation
        if live.interrupted.is_set():
            return failed_report(operation, INTERRUPTED, "interrupted before its turn")
        folder = run_folder(operation.run_id)
        folder.make()
        try:
            until_answered(lambda: self._prepare(operation, folder), live.interrupted)
        except DBAPIError:
            if live.interrupted.is_set():
                return failed_report(operation, INTERRUPTED, "interrupted before its turn")
            raise
        request = WorkerRequest(
            operation=operation,
            folder=str(folder.path),
            checkout=str(self._checkout),
            ends_by=time.time() + self._limits.operation_s,
        )
        watch = Watch(
            environ=self._environ, interrupted=live.interrupted, grace_s=self._limits.grace_s
        )
        code = run_worker(request, folder, watch=watch)
        found = folder.read()
        assert found is not None, "it was written before the worker was asked"
        if found.report.state is OperationState.RUNNING:
            _LOG.error(
                "run %s: the worker died with exit code %s",
                operation.run_id,
                code,
                extra={"run": operation.run_id},
            )
        return self._ended(folder, found, live.interrupted)

    def _prepare(self, operation: Operation, folder: RunFolder) -> None:
        self._settings.exchange(folder)
        if operation.lease is not None:
            with self._store.write() as connection:
                leases.require(connection, operation.lease)

    def _ended(
        self, folder: RunFolder, found: PerformedReport, is_over: threading.Event | None = None
    ) -> OperationReport:
        """Return how an operation ended that nobody performs any more, its settings stored.

        With an event a database that is away is waited for.
        """
        report = found.report
        if report.state is OperationState.RUNNING:
            report = replace(
                report,
                state=OperationState.FAILED,
                code=INTERRUPTED,
                message=f"the process of {report.kind} died",
                is_retryable=report.kind is not OperationKind.MAKE,
                finished_at=datetime.now(UTC),
            )
            folder.write(replace(found, report=report))
        if report.kind is OperationKind.REMOVE and report.state is OperationState.DONE:
            self._settings.remove(folder)
            folder.remove()
        elif report.kind is OperationKind.MAKE and report.state is OperationState.FAILED:
            if not folder.settings.exists():  # it took back what it had made
                folder.remove()
        else:
            self._settings.keep(folder, report.operation_id, is_over)
        return report

    def _remember(self, report: OperationReport) -> None:
        """Keep a report, and forget the oldest that are over; the lock is held."""
        self._reports[report.run_id] = report
        self._reports.move_to_end(report.run_id)
        while len(self._reports) > _MAX_REPORTS:
            oldest = next(iter(self._reports))
            if oldest in self._live:
                break
            del self._reports[oldest]


def _is_newer(found: OperationReport, known: OperationReport) -> bool:
    """Tell whether what a run's folder shows was begun by another server of this host, later.

    What this server knows may be newer: an operation that failed before its turn is in no folder.
    """
    if found.operation_id == known.operation_id:
        return False
    ended = found.finished_at
    return ended is None or (known.finished_at is not None and ended > known.finished_at)


def _join(lives: Iterable[_Live], timeout_s: float) -> bool:
    """Wait for operations, for all together as long as this; tell whether one is under way yet."""
    deadline = time.monotonic() + timeout_s
    for live in lives:
        live.thread.join(max(0.0, deadline - time.monotonic()))
    return any(live.thread.is_alive() for live in lives)
