"""Real local runs for the reconciler: supervisors and sleeping programs, without the engine.

The operator does what the stack's resources would do, through the same client of the supervisor.
"""

import threading
from collections.abc import Mapping
from pathlib import Path

from runtime import supervisor_client
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.control.operations import (
    CAPACITY,
    Operation,
    OperationBusyError,
    OperationKind,
    OperationReport,
    OperationState,
)
from runtime.errors import PaddockError
from runtime.local_state import LocalRun
from tests.runtime.control.reconciling.fakes import report_of
from tests.runtime.local.local_runs import ENDLESS, ORCHESTRATOR, SERVER, TRAINER, Local

K = OperationKind


def short(seconds: float) -> dict[str, str]:
    """Return the programs of a run that completes by itself."""
    return {
        "orchestrator": ORCHESTRATOR.format(s=seconds),
        "trainer-0": TRAINER.format(s=seconds + 0.1),
    }


endless = {name.replace("_", "-"): SERVER for name in ENDLESS}


class LocalClusters:
    """One local cluster, as the control plane knows it."""

    def __init__(self, local: Local, *, num_slots: int) -> None:
        """Describe the cluster of a test."""
        self.local = local
        offer = GpuOffer(name="CPU", num_nodes=1, gpus_per_node=num_slots, price_usd_per_hour=1.0)
        connection = LocalConnection(state_path=str(local.state), cache_path="/nowhere")
        self.profile = ClusterProfile(
            name="east", gpus=(offer,), connection=connection, runs_path=str(local.runs_path)
        )

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return the profile."""
        return {"east": self.profile}

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return nothing: there are no volumes."""
        return None

    def is_shared(self, volume: str) -> bool | None:
        """Know nothing."""
        return None


class LocalOperator:
    """Starts and destroys real local runs, one thread an operation."""

    def __init__(self, local: Local, programs: Mapping[str, Mapping[str, str]]) -> None:
        """Start these programs, by run id."""
        self.local = local
        self.programs = programs
        self.performed: list[tuple[str, OperationKind, int]] = []
        self._reports: dict[str, OperationReport] = {}
        self._lock = threading.Lock()

    def start(self, operation: Operation) -> None:
        """Begin an operation."""
        with self._lock:
            known = self._reports.get(operation.run_id)
            if known is not None and known.state is OperationState.RUNNING:
                raise OperationBusyError(f"{operation.run_id}: busy")
            self._reports[operation.run_id] = report_of(operation, OperationState.RUNNING)
            self.performed.append((operation.run_id, operation.kind, operation.attempt))
        threading.Thread(target=self._perform, args=(operation,), daemon=True).start()

    def state(self, run_id: str) -> OperationReport | None:
        """Return the newest operation."""
        return self._reports.get(run_id)

    def interrupt(self, run_id: str) -> None:
        """Do nothing: an `up` of these runs takes a moment."""

    def close(self) -> None:
        """Do nothing."""

    def of(self, run_id: str) -> list[OperationKind]:
        """Return what was done for a run, in order."""
        return [kind for one, kind, _ in self.performed if one == run_id]

    def _perform(self, operation: Operation) -> None:
        run = self.local.run(operation.run_id, operation.attempt)
        try:
            if operation.kind in {K.UP, K.RESUME}:
                self._up(run)
            elif operation.kind is K.DESTROY:
                supervisor_client.release_run(run, is_destroy=True)
            self._reports[run.run_id] = report_of(operation, OperationState.DONE)
        except PaddockError as error:
            report = report_of(operation, OperationState.FAILED)
            code = CAPACITY if "are free" in str(error) else error.code
            self._reports[run.run_id] = OperationReport(
                operation_id=report.operation_id,
                kind=report.kind,
                run_id=run.run_id,
                attempt=run.attempt,
                state=OperationState.FAILED,
                code=code,
                message=str(error),
            )

    def _up(self, run: LocalRun) -> None:
        codes = self.programs[run.run_id]
        if run.attempt > 1:
            supervisor_client.release_run(self.local.run(run.run_id, run.attempt - 1))
        supervisor_client.start_run(self.local.request(run, codes, num_slots=1))
        for name in codes:
            supervisor_client.start_component(run, name, {})
