"""A cluster and an operator in memory, for tests of what the reconciler decides and writes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection
from runtime.control.operations import (
    Operation,
    OperationBusyError,
    OperationKind,
    OperationReport,
    OperationState,
)
from runtime.control.places import FoundRun, Leftover, PodUse, Seen
from runtime.control.rooms import ClusterRoom, NodeRoom
from runtime.control.values import StoredRun
from runtime.observe.judge import Transition
from runtime.states import RunState

GPU = "H100_80GB"
K = OperationKind


def profile_of(name: str = "east", *, num_gpus: int = 3, price: float = 2.0) -> ClusterProfile:
    """Return the profile of a cluster of one node."""
    offer = GpuOffer(name=GPU, num_nodes=1, gpus_per_node=num_gpus, price_usd_per_hour=price)
    connection = KubernetesConnection(context=name, namespace="lab")
    return ClusterProfile(name=name, gpus=(offer,), connection=connection, runs_path="/runs")


@dataclass(kw_only=True)
class FakeRun:
    """What of a run is on the cluster; times are those of its whole life there."""

    state: RunState = RunState.PENDING
    reason: str = ""
    num_gpus: int = 1
    attempt: int = 1
    num_left: int = 1
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    preempted: bool = False
    checkpoint: int | None = None
    is_torn_down: bool = False


class FakeCluster:
    """A cluster's runs and room; counts what is done to it, and refuses to start a run twice."""

    def __init__(self, name: str = "east", *, num_gpus: int = 3, queues: bool = False) -> None:
        """Start empty."""
        self.profile = profile_of(name, num_gpus=num_gpus)
        self.runs: dict[str, FakeRun] = {}
        self.queues = queues
        self.is_reachable = True
        self.silent_since: datetime | None = None
        self.has_files = True
        self.num_observed = 0
        self.starts: list[tuple[str, int]] = []
        self.ended: list[tuple[str, str]] = []
        self.lingering = 0
        self.found: list[FoundRun] = []
        self.left: list[Leftover] = []
        self.swept: list[str] = []
        self.lock = threading.Lock()

    def start(self, operation: Operation, *, num_gpus: int) -> None:
        """Start the workloads of an attempt; the room must be there."""
        with self.lock:
            known = self.runs.get(operation.run_id)
            if known is not None and known.attempt == operation.attempt:
                return
            used = sum(run.num_gpus for run in self.runs.values() if run.num_left)
            total = self.profile.gpus[0].num_gpus
            assert self.queues or used + num_gpus <= total, f"{operation.run_id} has no room"
            assert (operation.run_id, operation.attempt) not in self.starts, "dispatched twice"
            self.starts.append((operation.run_id, operation.attempt))
            self.runs[operation.run_id] = FakeRun(num_gpus=num_gpus, attempt=operation.attempt)

    def become(self, run_id: str, state: RunState, reason: str = "") -> None:
        """Let a run come into a state; its workloads end with it."""
        with self.lock:
            run = self.runs[run_id]
            run.state, run.reason = state, reason
            if state in {RunState.COMPLETED, RunState.FAILED, RunState.STOPPED}:
                run.num_left, run.ended = 0, datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class FakePlace:
    """The place of one run on a fake cluster."""

    run: StoredRun
    cluster: FakeCluster

    def observe(self) -> Seen:
        """Return what the fake cluster has."""
        self.cluster.num_observed += 1
        found = self.cluster.runs.get(self.run.run_id)
        if found is None:
            return Seen(is_reachable=self.cluster.is_reachable)
        if found.attempt != self.run.attempt or found.preempted:
            preempted = found.preempted and found.attempt == self.run.attempt
            return Seen(
                num_left=found.num_left, preempted=preempted, preemption="preempted by another"
            )
        use = PodUse(
            source="pod-0",
            gpu_type=GPU,
            num_gpus=found.num_gpus,
            started_at=found.started,
            ended_at=found.ended,
        )
        return Seen(
            transition=Transition(state=found.state, reason=found.reason),
            since=found.ended or found.started,
            is_reachable=self.cluster.is_reachable,
            silent_since=self.cluster.silent_since,
            uses=(use,),
            num_left=found.num_left,
            has_checkpoint_step=found.checkpoint if self.cluster.has_files else None,
            are_checkpoints_known=self.cluster.has_files,
            is_torn_down=found.is_torn_down,
        )

    def settle(self) -> None:
        """Do nothing."""

    def end_workloads(self, reason: str) -> None:
        """End the run's workloads, unless some are told to linger."""
        self.cluster.ended.append((self.run.run_id, reason))
        found = self.cluster.runs.get(self.run.run_id)
        if found is None:
            return
        if self.cluster.lingering:
            self.cluster.lingering -= 1
            return
        found.num_left = 0
        if found.state not in {RunState.COMPLETED, RunState.FAILED, RunState.STOPPED}:
            self.cluster.become(self.run.run_id, RunState.STOPPED, reason)

    def num_left(self) -> int:
        """Return what is left."""
        found = self.cluster.runs.get(self.run.run_id)
        return found.num_left if found is not None else 0

    def sweep(self, control_plane_id: str) -> None:
        """Note that the run was swept."""
        self.cluster.swept.append(self.run.run_id)


@dataclass
class FakePlaces:
    """The places of runs on fake clusters."""

    clusters: dict[str, FakeCluster]

    def refresh(self) -> None:
        """Do nothing."""

    def place_of(self, run: StoredRun) -> FakePlace | None:
        """Return the place of a run."""
        cluster = self.clusters.get(run.cluster or "")
        return FakePlace(run=run, cluster=cluster) if cluster is not None else None

    def rooms(self) -> tuple[ClusterRoom, ...]:
        """Return the clusters' rooms."""
        return tuple(room_of(one) for one in self.clusters.values() if one.is_reachable)

    def answering(self) -> frozenset[str]:
        """Return the clusters that are reachable."""
        return frozenset(name for name, one in self.clusters.items() if one.is_reachable)

    def found_runs(self) -> tuple[FoundRun, ...]:
        """Return what a test put there."""
        return tuple(found for one in self.clusters.values() for found in one.found)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return what a test put there."""
        return tuple(left for one in self.clusters.values() for left in one.left)

    def price_usd_per_hour(self, cluster: str, gpu_type: str) -> float:
        """Return the offer's price."""
        return self.clusters[cluster].profile.gpus[0].price_usd_per_hour


def room_of(cluster: FakeCluster) -> ClusterRoom:
    """Return the room of a fake cluster."""
    offer = cluster.profile.gpus[0]
    with cluster.lock:
        held = {run_id: run.num_gpus for run_id, run in cluster.runs.items() if run.num_left}
    free = offer.num_gpus - sum(held.values())
    node = NodeRoom(
        name="node-0", gpu_type=GPU, num_gpus=offer.num_gpus, num_free=max(0, free), held=held
    )
    return ClusterRoom(profile=cluster.profile, nodes=(node,), queues=cluster.queues)


class FakeOperator:
    """Performs operations on a fake cluster, each on a thread; `delay_s` makes them take time.

    `failures` are reports that the next operations of a kind end with.
    """

    def __init__(self, cluster: FakeCluster, *, delay_s: float = 0.0) -> None:
        """Perform on this cluster."""
        self.cluster = cluster
        self.delay_s = delay_s
        self.performed: list[tuple[str, OperationKind, int]] = []
        self.failures: dict[OperationKind, list[dict[str, object]]] = {}
        self.interrupted: list[str] = []
        self.reports: dict[str, OperationReport] = {}
        self.operations: dict[str, Operation] = {}
        self.made: dict[str, Operation] = {}
        self.held: set[OperationKind] = set()
        self.num_gpus: Callable[[str], int] = lambda run_id: 1
        self._lock = threading.Lock()

    def start(self, operation: Operation) -> None:
        """Begin an operation."""
        with self._lock:
            known = self.reports.get(operation.run_id)
            if known is not None and known.state is OperationState.RUNNING:
                raise OperationBusyError(f"{operation.run_id}: busy")
            self.reports[operation.run_id] = report_of(operation, OperationState.RUNNING)
            self.operations[operation.run_id] = operation
            if operation.kind is K.MAKE:
                self.made[operation.run_id] = operation
            self.performed.append((operation.run_id, operation.kind, operation.attempt))
        if operation.kind in self.held:
            return
        if self.delay_s:
            threading.Thread(target=self.finish, args=(operation.run_id,), daemon=True).start()
        else:
            self.finish(operation.run_id)

    def finish(self, run_id: str) -> None:
        """End what is under way of a run, as it would by itself."""
        time.sleep(self.delay_s)
        operation = self.operations[run_id]
        planned = self.failures.get(operation.kind) or []
        if planned:
            self._report(operation, OperationState.FAILED, **planned.pop(0))
            return
        if operation.kind in {K.UP, K.RESUME} and run_id not in self.interrupted:
            self.cluster.start(operation, num_gpus=self.num_gpus(run_id))
        if operation.kind is K.DESTROY:
            with self.cluster.lock:
                self.cluster.runs.pop(run_id, None)
        self._report(operation, OperationState.DONE)

    def state(self, run_id: str) -> OperationReport | None:
        """Return the newest operation."""
        return self.reports.get(run_id)

    def interrupt(self, run_id: str) -> None:
        """End what is under way as failed."""
        self.interrupted.append(run_id)
        operation = self.operations.get(run_id)
        if operation is not None and self.reports[run_id].state is OperationState.RUNNING:
            self._report(
                operation, OperationState.FAILED, code="interrupted", message="interrupted"
            )

    def close(self) -> None:
        """Do nothing."""

    def of(self, run_id: str) -> list[OperationKind]:
        """Return what was done for a run, in order."""
        return [kind for one, kind, _ in self.performed if one == run_id]

    def _report(self, operation: Operation, state: OperationState, **changes: object) -> None:
        report = report_of(operation, state)
        self.reports[operation.run_id] = replace(report, **changes)  # type: ignore[arg-type]  # by name


def report_of(operation: Operation, state: OperationState) -> OperationReport:
    """Return the report of an operation in a state."""
    return OperationReport(
        operation_id=operation.operation_id,
        kind=operation.kind,
        run_id=operation.run_id,
        attempt=operation.attempt,
        state=state,
    )
