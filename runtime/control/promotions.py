"""Promotion of queued runs, by the one server that holds the scheduler's lease.

Reads the clusters' rooms, lets `runtime.control.scheduler` decide, and writes what it decided. Who
was promoted holds a reservation for as long as the store says that it lives.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from runtime.control.operations import OperationState, StoredOperation
from runtime.control.places import Places
from runtime.control.scheduler import (
    Promotion,
    QueuedRun,
    Reservation,
    Waiting,
    plan_promotions,
)
from runtime.control.situations import MAKING
from runtime.control.store import events, runs
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun, Wish
from runtime.plan import plan_from_json
from runtime.states import RunState

_LOG = logging.getLogger(__name__)
_NO_PLACE = {RunState.PAUSED, RunState.COMPLETED, RunState.FAILED, RunState.STOPPED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotions:
    """Promotes runs; `_parts` keeps what was read of the plan of each live run's attempt."""

    store: Store
    places: Places
    _parts: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)

    def promote(
        self,
        live: Iterable[StoredRun],
        newest: Mapping[str, StoredOperation],
        fence: Lease,
    ) -> list[str]:
        """Promote what fits now, write why the others wait, and return who was promoted."""
        live = list(live)
        for key in self._parts.keys() - {(run.run_id, run.attempt) for run in live}:
            del self._parts[key]
        waiting = sorted(filter(is_waiting, live), key=lambda run: run.queue_number or 0)
        if not waiting:
            return []
        queued = [one for run in waiting if (one := self._queued(run, newest.get(run.run_id)))]
        in_use = [self._reservation(run) for run in live if holds_room(run)]
        by_id = {run.run_id: run for run in waiting}
        promoted = []
        for answer in plan_promotions(queued, self.places.rooms(), in_use):
            run = by_id[answer.run_id]
            if isinstance(answer, Waiting):
                self._write_reason(run, answer, fence)
            elif self._write(run, answer, fence):
                promoted.append(run.run_id)
        return promoted

    def _queued(self, run: StoredRun, newest: StoredOperation | None) -> QueuedRun | None:
        """Return what the scheduler needs of a run, None for one whose stack could not be made."""
        if newest is not None and newest.attempt != run.attempt:  # a resume that was taken back
            newest = None
        is_ready = newest is not None or run.attempt > 1
        if newest is not None and newest.kind in MAKING:
            if newest.state is OperationState.FAILED:
                return None
            is_ready = newest.state is OperationState.DONE
        elif newest is not None and newest.recovers in MAKING:  # its stack is still to be made
            is_ready = False
        return QueuedRun(
            run_id=run.run_id,
            parts=self._parts_of(run),
            cluster=run.cluster,
            gpu_type=run.gpu_type,
            is_ready=is_ready,
        )

    def _reservation(self, run: StoredRun) -> Reservation:
        return Reservation(
            run_id=run.run_id,
            cluster=run.cluster or "",
            gpu_type=run.gpu_type,
            parts=self._parts_of(run),
        )

    def _parts_of(self, run: StoredRun) -> tuple[int, ...]:
        key = (run.run_id, run.attempt)  # a resume may have another GPU type, so other nodes
        if key not in self._parts:
            self._parts[key] = node_parts(run)
        return self._parts[key]

    def _write(self, run: StoredRun, answer: Promotion, fence: Lease) -> bool:
        changes: dict[str, object] = {"cluster": answer.cluster, "gpu_type": answer.gpu_type}
        words = f"promoted to {answer.gpu_type} on {answer.cluster}"
        if answer.is_queued_there:
            changes |= {"queue_number": None, "reason": f"in the queue of {answer.cluster}"}
            words = f"left to the queue of {answer.cluster}"
        else:
            changes |= {"state": RunState.PENDING, "reason": ""}
        with self.store.write() as tx:
            changed = runs.compare_and_set(tx, run.run_id, run.version, fence=fence, **changes)
            if changed is None:
                return False
            events.add_event(tx, changed, "queue", message=words)
            if not answer.is_queued_there:
                events.add_event(tx, changed, "state", state=RunState.PENDING)
        _LOG.info("%s %s", run.run_id, words, extra={"run": run.run_id})
        return True

    def _write_reason(self, run: StoredRun, answer: Waiting, fence: Lease) -> None:
        if run.reason == answer.reason:
            return
        with self.store.write() as tx:
            runs.compare_and_set(tx, run.run_id, run.version, fence=fence, reason=answer.reason)


def is_waiting(run: StoredRun) -> bool:
    """Tell whether a run is in the queue."""
    is_queued = run.state is RunState.QUEUED and run.queue_number is not None
    return is_queued and run.wish is Wish.RUN and run.is_driven


def holds_room(run: StoredRun) -> bool:
    """Tell whether a run was given room that it may not show yet; by hand it only shows."""
    if not run.is_driven or run.cluster is None or run.state in _NO_PLACE:
        return False
    return run.state is not RunState.QUEUED or run.queue_number is None


def node_parts(run: StoredRun) -> tuple[int, ...]:
    """Return the GPUs that a run needs together, one entry a node."""
    try:
        plan = plan_from_json(run.plan_json)
    except ValidationError:
        return (run.num_gpus,)
    if plan.target == "local" or plan.pool.num_nodes < 2:
        return (run.num_gpus,)
    return (plan.pool.gpus_per_node,) * plan.pool.num_nodes
