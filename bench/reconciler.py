"""Measures a reconciler's pass over live runs: is it linear, how long, how much memory?

    python -m bench.reconciler --runs 125 250 500

Real store, fake cluster: places answer at once, so what is measured is the control plane's own
work. Prints one JSON line a size, and the exponent of a fit of the CPU time: 1.0 is linear.
"""

import argparse
import json
import math
import resource
import statistics
import tempfile
import time
from pathlib import Path

from sqlalchemy import Connection

from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.operations import (
    Operation,
    OperationKind,
    OperationReport,
    OperationState,
)
from runtime.control.places import FoundRun, Leftover, PodUse, Seen
from runtime.control.reconciler import Reconciler
from runtime.control.rooms import ClusterRoom
from runtime.control.store import operations, runs, users
from runtime.control.store.columns import EPOCH
from runtime.control.store.store import Store, open_store
from runtime.control.values import NewRun, StoredRun
from runtime.observe.judge import Transition
from runtime.states import RunState

NUM_PASSES = 9
CONFIG_BYTES = 4_000


class RunningPlace:
    """The place of a run that runs and runs."""

    def observe(self) -> Seen:
        """Return a run that is RUNNING and holds a GPU."""
        use = PodUse(source="pod", gpu_type="H100_80GB", num_gpus=1, started_at=EPOCH)
        return Seen(transition=Transition(state=RunState.RUNNING), uses=(use,), num_left=1)

    def settle(self) -> None:
        """Do nothing."""

    def end_workloads(self, reason: str) -> None:
        """Do nothing."""

    def num_left(self) -> int:
        """Return one."""
        return 1

    def sweep(self, control_plane_id: str) -> None:
        """Do nothing."""


class RunningPlaces:
    """A cluster on which every run runs."""

    def refresh(self) -> None:
        """Do nothing."""

    def place_of(self, run: StoredRun) -> RunningPlace:
        """Return the same place for all."""
        return RunningPlace()

    def rooms(self) -> tuple[ClusterRoom, ...]:
        """Return none."""
        return ()

    def answering(self) -> frozenset[str]:
        """Return none."""
        return frozenset()

    def found_runs(self) -> tuple[FoundRun, ...]:
        """Return none."""
        return ()

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return none."""
        return ()

    def price_usd_per_hour(self, cluster: str, gpu_type: str) -> float:
        """Return a price."""
        return 2.0


class IdleOperator:
    """Has nothing to do."""

    def start(self, operation: Operation) -> None:
        """Refuse: no run needs an operation here."""
        raise AssertionError(operation)

    def state(self, run_id: str) -> OperationReport | None:
        """Return nothing."""
        return None

    def interrupt(self, run_id: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def measure(store: Store, keeper: LeaseKeeper) -> tuple[float, float]:
    """Return the median of some passes in milliseconds, of the CPU and of the clock.

    The first pass, which meters, is left out. The CPU's time is what a busy machine changes least.
    """
    reconciler = Reconciler(
        store=store, places=RunningPlaces(), operator=IdleOperator(), keeper=keeper
    )
    reconciler.make_pass()
    cpu_ms, wall_ms = [], []
    for _ in range(NUM_PASSES):
        began = time.process_time(), time.perf_counter()
        reconciler.make_pass()
        cpu_ms.append((time.process_time() - began[0]) * 1000)
        wall_ms.append((time.perf_counter() - began[1]) * 1000)
    reconciler.close()
    return statistics.median(cpu_ms), statistics.median(wall_ms)


def fill(store: Store, num_runs: int, num_stored: int) -> None:
    """Store live runs, and runs that are over and torn down."""
    with store.write() as tx:
        user = users.add_user(tx, name="bench", email="bench@example.org")
        for number in range(num_runs + num_stored):
            new = new_run(user.user_id, f"run-{number:05d}")
            if number < num_runs:
                insert_live(tx, new)
                continue
            run = runs.insert_run(tx, new)
            over = {"state": RunState.COMPLETED, "teardown": "done", "capture": "done"}
            runs.compare_and_set(tx, run.run_id, run.version, fence=None, **over)


def new_run(user_id: str, run_id: str) -> NewRun:
    """Return a run that its record says to be RUNNING."""
    return NewRun(
        run_id=run_id,
        user_id=user_id,
        name=run_id,
        model="m",
        config_text="#" * CONFIG_BYTES,
        config_digest="d",
        plan_json="{}",
        cluster="east",
        gpu_type="H100_80GB",
        num_gpus=1,
        state=RunState.RUNNING,
    )


def insert_live(connection: Connection, new: NewRun) -> None:
    """Store a run, and that its stack is up, so that nothing is begun."""
    run = runs.insert_run(connection, new)
    operation = Operation(
        operation_id=f"up-{run.run_id}",
        kind=OperationKind.UP,
        run_id=run.run_id,
        attempt=1,
        cluster=run.cluster or "",
    )
    operations.begin(connection, operation, holder="bench")
    report = OperationReport(
        operation_id=operation.operation_id,
        kind=operation.kind,
        run_id=run.run_id,
        attempt=1,
        state=OperationState.DONE,
    )
    operations.finish(connection, report)


def exponent(times: dict[int, float]) -> float:
    """Return the slope of time over size in a double logarithmic fit."""
    points = [(math.log(size), math.log(value)) for size, value in times.items()]
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope


def main() -> None:
    """Measure each size on a database of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[125, 250, 500])
    parser.add_argument("--stored", type=int, default=0, help="runs that are over, besides")
    asked = parser.parse_args()
    times = {}
    for size in asked.runs:
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(f"sqlite:///{Path(folder) / 'control.db'}")
            fill(store, size, asked.stored)
            with LeaseKeeper(store, "bench") as keeper:
                times[size], wall_ms = measure(store, keeper)
            store.close()
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = {
            "runs": size,
            "stored": asked.stored,
            "cpu_ms": round(times[size], 1),
            "wall_ms": round(wall_ms, 1),
            "peak_rss_mib": round(peak_mib),
        }
        print(json.dumps(told))
    if len(times) > 1:
        print(json.dumps({"exponent": round(exponent(times), 2)}))


if __name__ == "__main__":
    main()
