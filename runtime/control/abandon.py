"""Giving up a run whose cluster is gone for good, by the administrator's word alone.

A server ends no run that it cannot see: it waits for the cluster. Where that never comes back, the
run would wait, and be billed, for ever. The run's stack is left to the sweep, which names it.
"""

from datetime import datetime

from sqlalchemy import Connection

from runtime.control.metering import close_intervals
from runtime.control.store import events, runs, usage
from runtime.control.store.columns import read_clock
from runtime.control.values import StoredRun, Wish
from runtime.errors import NotFoundError, RunStateError
from runtime.states import Capture, RunState, Teardown


def abandon(connection: Connection, run_id: str, *, lost_at: datetime | None = None) -> StoredRun:
    """End a run, its teardown and its capture in the record, and close its usage.

    `lost_at` is when its cluster was lost, by default now: what it cost after that is given back.
    Raises NotFoundError for a run that is not there, RunStateError for one that is over and torn
    down, for a time before its start or to come, and where a server just writes it.
    """
    run = runs.get_run(connection, run_id, locks=True)
    if run is None or run.deleted_at is not None:
        raise NotFoundError(f"no run {run_id}")
    is_captured = run.capture in {Capture.DONE, Capture.INCOMPLETE}
    if run.is_over and run.teardown is Teardown.DONE and is_captured:
        raise RunStateError(f"{run_id} is {run.state} and torn down: there is nothing to give up")
    ended = _end_of(connection, run, lost_at)
    reason = run.reason
    changes: dict[str, object] = {"teardown": Teardown.DONE}
    if not run.is_over:
        is_wished = run.wish in {Wish.STOP, Wish.DELETE}
        reason = f"given up by the administrator: cluster {run.cluster or 'none'} is gone"
        state = RunState.STOPPED if is_wished else RunState.FAILED
        changes |= {"state": state, "reason": reason, "ended_at": ended}
    if run.capture is not Capture.DONE:
        changes["capture"] = Capture.INCOMPLETE
    if run.wish is Wish.DELETE:
        changes["deleted_at"] = read_clock(connection)
    changed = runs.compare_and_set(connection, run_id, run.version, fence=None, **changes)
    if changed is None:
        raise RunStateError(f"{run_id} was just changed by a server: try again")
    if not run.is_over:
        events.add_event(connection, changed, "state", state=changed.state, message=reason)
    events.add_event(connection, changed, "teardown", message="given up by the administrator")
    close_intervals(connection, changed)
    return changed


def _end_of(connection: Connection, run: StoredRun, lost_at: datetime | None) -> datetime:
    now = read_clock(connection)
    if lost_at is None:
        return now
    starts = [one.started_at for one in usage.list_intervals(connection, run.run_id)]
    began = max([*starts, run.created_at])
    if not began <= lost_at <= now:
        said = f"between {began:%Y-%m-%dT%H:%M:%SZ}, when it last began, and now"
        raise RunStateError(f"{run.run_id}: its cluster was lost {said}: change --lost-at")
    return lost_at
