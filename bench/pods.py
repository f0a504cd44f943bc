"""Measures a server's pass over live runs in pods, on a real API server: requests, time, memory.

    python -m bench.pods --runs 60 120 240

Records and objects are made directly, pods run on kwok's nodes of the testbed, and the store has a
row of each run. A server of its own for each size opens the cluster and makes a pass a second, as
`paddock serve` does. A pass in five judges every run again, and one adopts, so that what counts is
the mean; the first pass, which reads what each run was launched with, is told apart, and so is a
sweep for orphans. What a cluster that answers at once costs is `bench.reconciler`'s.

Prints one JSON line a size, then fits over the sizes; 1 where one of them is over its limit: the
exponent of a pass's CPU time (1.0 is linear), KiB of memory a run, requests a run and pass. More
runs want more cores: on two, kwok's nodes for 500 fall silent, and their pods count as lost.
"""

import argparse
import json
import logging
import math
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.reconciler import IdleOperator, exponent, insert_live, new_run
from runtime.cluster import ClusterProfile
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.reconciler import PASS_S, Reconciler
from runtime.control.run_places import ClusterPlaces
from runtime.control.store import run_lists, users
from runtime.control.store.store import Store, open_store
from runtime.states import RunState
from tests.cluster.fleet import Fleet, open_fleet
from tests.testbed import lifecycle
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

MAX_EXPONENT = 1.3
"""Generous: a pass that looks at all runs for each of them would have 2."""

MAX_KIB_PER_RUN = 700.0
"""Resident; most of it is what the first lists, parsed, leave with the allocator: 500 in December
2026, and 800 while a watch kept those lists."""

MAX_REQUESTS_PER_RUN = 0.05
"""A watch tells of changes: a run that goes on has nothing to be asked for, pass after pass."""

NUM_PASSES = 16
RUNS_PER_NODE = 4
GPUS_PER_RUN = 2
PODS_PER_RUN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class OneCluster:
    """Clusters of which there is one."""

    profile: ClusterProfile

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return its profile."""
        return {self.profile.name: self.profile}

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return none: no run has a volume."""
        return None

    def is_shared(self, volume: str) -> bool | None:
        """Return that nobody knows."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """What one pass took: milliseconds of the CPU and of the clock, requests to the API."""

    cpu_ms: float
    wall_ms: float
    num_requests: int


class Meter(logging.Handler):
    """Measures passes; hears from httpx what is asked for, and leaves watches out."""

    def __init__(self) -> None:
        """Listen."""
        super().__init__(logging.INFO)
        self.passes: list[Pass] = []
        self._num_requests = 0
        asking = logging.getLogger("httpx")
        asking.setLevel(logging.INFO)
        asking.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a request."""
        self._num_requests += "watch=1" not in record.getMessage()

    def measure(self, make: Callable[[], object]) -> Pass:
        """Make a pass, and add what it took."""
        before, cpu_s, wall_s = self._num_requests, time.process_time(), time.perf_counter()
        make()
        cpu_ms = (time.process_time() - cpu_s) * 1000
        wall_ms = (time.perf_counter() - wall_s) * 1000
        num_requests = self._num_requests - before
        self.passes.append(Pass(cpu_ms=cpu_ms, wall_ms=wall_ms, num_requests=num_requests))
        return self.passes[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a server of one size took, in a process of its own."""

    first: Pass
    passes: tuple[Pass, ...]
    sweep: Pass
    before_mib: float
    """Resident, before the cluster is opened; then after the passes, and after the sweep."""
    after_mib: float
    swept_mib: float

    @property
    def mean_cpu_ms(self) -> float:
        """Return the CPU time of a pass."""
        return statistics.mean(one.cpu_ms for one in self.passes)

    @property
    def mean_requests(self) -> float:
        """Return how many requests a pass makes."""
        return statistics.mean(one.num_requests for one in self.passes)

    def told(self) -> dict[str, object]:
        """Return what is printed."""
        cpu_ms = [one.cpu_ms for one in self.passes]
        return {
            "cpu_ms": _spread(cpu_ms),
            "wall_ms": _spread([one.wall_ms for one in self.passes]),
            "requests": round(self.mean_requests, 1),
            "first": _plain(self.first),
            "sweep": _plain(self.sweep),
            "rss_mib": [round(one) for one in (self.before_mib, self.after_mib, self.swept_mib)],
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each size, smallest first; 1 where a fit is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[60, 120, 240])
    sizes = sorted(parser.parse_args(argv).runs)
    testbed, is_ours = lifecycle.start()
    os.environ["KUBECONFIG"] = str(testbed.kubeconfig)
    try:
        found = _measure_sizes(testbed, sizes)
    finally:
        if is_ours:
            lifecycle.stop()
    return _judge(found) if len(found) > 1 else 0


def measure(database: str, profile: ClusterProfile, num_runs: int) -> Measured:
    """Be a server: look at all runs, and tell what that takes."""
    meter = Meter()
    store = open_store(database)
    before_mib = _memory_mib()
    places = ClusterPlaces(OneCluster(profile=profile))
    with LeaseKeeper(store, f"bench-{num_runs}") as keeper:
        reconciler = Reconciler(
            store=store, places=places, operator=IdleOperator(), keeper=keeper, sweeps=False
        )
        wait_for(lambda: places.refresh() or places.answering(), timeout_s=300)
        for _ in range(1 + NUM_PASSES):
            took = meter.measure(reconciler.make_pass)
            time.sleep(max(0.05, PASS_S - took.wall_ms / 1000))
        after_mib = _memory_mib()
        _check(store, places, num_runs)
        sweep = meter.measure(reconciler.sweep)
        reconciler.close()
    places.close()
    store.close()
    return Measured(
        first=meter.passes[0],
        passes=tuple(meter.passes[1:-1]),
        sweep=sweep,
        before_mib=before_mib,
        after_mib=after_mib,
        swept_mib=_memory_mib(),
    )


def _measure_sizes(testbed: Testbed, sizes: Sequence[int]) -> dict[int, Measured]:
    """Let a fleet grow from size to size, and measure a new server at each."""
    spawn = multiprocessing.get_context("spawn")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'control.db'}"
        store = open_store(database)
        with open_fleet(testbed, Path(folder), math.ceil(sizes[-1] / RUNS_PER_NODE * 1.1)) as fleet:
            fleet = replace(fleet, control_plane=store.control_plane_id)
            with store.write() as tx:
                user_id = users.add_user(tx, name="bench", email="bench@example.org").user_id
            for size in sizes:
                began = time.monotonic()
                _grow(fleet, store, user_id, size)
                made_s = round(time.monotonic() - began)
                with _at_rest(fleet), ProcessPoolExecutor(1, mp_context=spawn) as pool:
                    found[size] = pool.submit(measure, database, fleet.profile, size).result()
                told = {"runs": size, "made_s": made_s, **found[size].told()}
                print(json.dumps({**told, "load": round(os.getloadavg()[0], 1)}), flush=True)
        store.close()
    return found


def _grow(fleet: Fleet, store: Store, user_id: str, size: int) -> None:
    """Make runs up to a size, wait until all of them run, and store those that are new."""
    num_known = len(fleet.run_ids)
    fleet.start(size - num_known)
    wait_for(lambda: _num_running(fleet) == size, timeout_s=1200)
    with store.write() as tx:
        for run_id in fleet.run_ids[num_known:]:
            (offer,) = fleet.profile.gpus
            where = {"cluster": fleet.profile.name, "gpu_type": offer.name}
            insert_live(tx, replace(new_run(user_id, run_id), num_gpus=GPUS_PER_RUN, **where))


def _num_running(fleet: Fleet) -> int:
    time.sleep(1.0)  # a list of all records is no small thing to ask for
    records = fleet.records().values()
    lost = [one.reason for one in records if one.is_over]
    assert not lost, f"{len(lost)} runs ended, this machine cannot play so many nodes: {lost[0]}"
    return sum(one.state is RunState.RUNNING for one in records)


@contextmanager
def _at_rest(fleet: Fleet) -> Iterator[None]:
    """Keep the fleet's own observer from taking the CPU meanwhile."""
    fleet.observer.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        fleet.observer.send_signal(signal.SIGCONT)


def _check(store: Store, places: ClusterPlaces, num_runs: int) -> None:
    """Refuse a measurement of anything but runs that all run, and are seen to."""
    with store.read() as tx:
        live = run_lists.live_runs(tx)
    seen = [place.observe() for run in live if (place := places.place_of(run)) is not None]
    states = {one.transition.state for one in seen if one.transition is not None}
    assert len(seen) == num_runs, f"{len(seen)} of {num_runs} runs are stored and have a place"
    assert states == {RunState.RUNNING}, f"the runs are {states}"
    assert {one.num_left for one in seen} == {PODS_PER_RUN}, "pods of a run"


def _judge(found: Mapping[int, Measured]) -> int:
    """Print the fits, and return 1 where one is over its limit."""
    small, large = min(found), max(found)
    grown_mib = found[large].after_mib - found[small].after_mib
    slope = exponent({size: one.mean_cpu_ms for size, one in found.items()})
    kib_per_run = grown_mib * 1024 / (large - small)
    requests_per_run = found[large].mean_requests / large
    told = {
        "exponent": round(slope, 2),
        "max_exponent": MAX_EXPONENT,
        "kib_per_run": round(kib_per_run),
        "max_kib_per_run": MAX_KIB_PER_RUN,
        "requests_per_run": round(requests_per_run, 3),
        "max_requests_per_run": MAX_REQUESTS_PER_RUN,
    }
    print(json.dumps(told))
    is_bounded = slope <= MAX_EXPONENT and kib_per_run <= MAX_KIB_PER_RUN
    return 0 if is_bounded and requests_per_run <= MAX_REQUESTS_PER_RUN else 1


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = {"median": statistics.median(values), "mean": statistics.mean(values)}
    return {name: round(one, 1) for name, one in {**found, "most": max(values)}.items()}


def _plain(one: Pass) -> dict[str, float]:
    took = {"cpu_ms": round(one.cpu_ms), "wall_ms": round(one.wall_ms)}
    return {**took, "requests": one.num_requests}


def _memory_mib() -> float:
    """Return the resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    (size,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(size) / 1024


if __name__ == "__main__":
    sys.exit(main())
