"""Adopted runs: those that `pulumi up` or GitOps made on a cluster that this control plane serves.

Found by their records, stored as `is_adopted`, observed, metered and shown like any other. One
whose stack this server can open is ended, resumed and torn down like its own, but for the empty
stack, which a person made; of any other nothing is changed, and an intent is answered with the
command to type. A run that carries the id of another control plane is that one's; one with this
one's id that the store does not know, after a restore say, is taken in likewise.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from runtime.control.places import FoundRun, Places
from runtime.control.stack_facts import StackFacts
from runtime.control.store import events, leases, run_lists, runs, users
from runtime.control.store.store import Store
from runtime.control.values import Lease, NewRun, StoredRun, Wish
from runtime.errors import RunStateError
from runtime.plan import RunPlan, plan_from_json
from runtime.states import Capture, RunState, Teardown

_LOG = logging.getLogger(__name__)

_COMMANDS = {
    "stop": "`paddock stop {run}`",
    "pause": "`paddock stop {run}`, later `paddock resume {run}`",
    "resume": "`paddock resume {run}`",
    "restart": "`paddock stop {run}`, then `paddock resume {run}`",
    "delete": "`paddock destroy {run} --remove`",
}
"""What a person types where the stack is, instead of asking the server."""


_AS_BEGUN: Mapping[str, object] = {
    "wish": Wish.RUN,
    "wish_reason": "",
    "teardown": Teardown.NONE,
    "capture": Capture.NONE,
    "queue_number": None,
    "started_at": None,
    "ended_at": None,
    "deleted_at": None,
    "exit_details": None,
}
"""What is not so any more once somebody has begun another attempt by hand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Adoption:
    """Takes runs that others made into the store."""

    store: Store
    places: Places
    _told: set[str] = field(default_factory=set)

    def adopt(self, fence: Lease) -> list[str]:
        """Store the live runs that the store does not know, and note new attempts; return ids."""
        adopted = []
        with self.store.read() as tx:
            live = {run.run_id: run for run in run_lists.live_runs(tx)}
        for found in self.places.found_runs():
            if found.control_plane_id not in {"", self.store.control_plane_id}:
                continue
            known = live.get(found.record.run_id)
            if known is not None and not _is_news(known, found):
                continue
            with self.store.write() as tx:
                if leases.is_held(tx, fence) and self._take(tx, found):
                    adopted.append(found.record.run_id)
        return adopted

    def _take(self, connection: Connection, found: FoundRun) -> bool:
        record = found.record
        known = runs.get_run(connection, record.run_id)
        if known is not None:
            return known.is_adopted and self._follow(connection, known, found)
        if record.is_over:
            return False
        owner = _owner(connection)
        if owner is None:
            if record.run_id not in self._told:
                self._told.add(record.run_id)
                what, run_id = "%s waits for a user to own it: `paddock user add`", record.run_id
                _LOG.warning(what, run_id, extra={"run": run_id})
            return False
        run = runs.insert_run(connection, _new_run(found, user_id=owner))
        events.add_event(connection, run, "state", state=run.state, message="adopted")
        started = [one.time for one in record.times if one.state is RunState.RUNNING]
        if record.state is RunState.RUNNING and started:
            runs.compare_and_set(connection, run.run_id, run.version, started_at=started[-1])
        _LOG.info("%s on %s is adopted", run.run_id, found.cluster, extra={"run": run.run_id})
        return True

    def _follow(self, connection: Connection, run: StoredRun, found: FoundRun) -> bool:
        """Note an attempt that somebody began by hand."""
        record = found.record
        if record.attempt <= run.attempt:
            late = _late_fields(run, found)
            if late:
                runs.compare_and_set(connection, run.run_id, run.version, fence=None, **late)
            return False
        changed = runs.compare_and_set(
            connection,
            run.run_id,
            run.version,
            fence=None,
            attempt=record.attempt,
            state=record.state,
            reason=record.reason,
            **_AS_BEGUN,
        )
        if changed is not None:
            events.add_event(connection, changed, "state", state=record.state)
        return changed is not None


def refuse_adopted(run: StoredRun, intent: str, stack: StackFacts) -> None:
    """Raise RunStateError with the command to type, for a run whose stack others have to change."""
    why = _why_not(run, intent, stack)
    if run.is_adopted and why:
        command = _COMMANDS[intent].format(run=run.run_id)
        raise RunStateError(
            f"{run.run_id} was made by hand or by GitOps, and the server only watches it, for "
            f"{why}: type {command} where its stack is"
        )


def _why_not(run: StoredRun, intent: str, stack: StackFacts) -> str:
    """Return why this server cannot do it, empty where it can."""
    if stack.trouble:
        return stack.trouble
    if not stack.is_run_on(run.cluster):
        return "the stack of this name in its state backend is another one"
    if intent not in {"resume", "restart"}:
        return ""
    env_file = str(stack.settings.get("envFile") or "/")
    if not env_file.startswith(("/", "~")):
        return f"paddock:envFile {env_file} is a path of another project"
    return "" if run.config_text else "its TOML is not known here"


def _owner(connection: Connection) -> str | None:
    """Return whose adopted runs are: the first administrator's, else the first user's."""
    everybody = users.list_users(connection)
    admins = [user for user in everybody if user.is_admin]
    return next((user.user_id for user in (*admins, *everybody)), None)


def _new_run(found: FoundRun, *, user_id: str) -> NewRun:
    record = found.record
    return replace(
        NewRun(
            run_id=record.run_id,
            user_id=user_id,
            name=record.run_id,
            model="",
            config_text="",
            config_digest=record.config_digest,
            plan_json="",
            cluster=found.cluster,
            gpu_type=found.gpu_type or None,
            num_gpus=found.num_gpus,
            state=record.state,
            reason=record.reason,
            attempt=record.attempt,
            is_adopted=True,
        ),
        **_config_fields(found),
    )


def _is_news(run: StoredRun, found: FoundRun) -> bool:
    """Tell whether there is anything to store of a run that is known: of most there is not."""
    is_next = found.record.attempt > run.attempt
    return run.is_adopted and (is_next or bool(_late_fields(run, found)))


def _late_fields(run: StoredRun, found: FoundRun) -> dict[str, Any]:  # Any: fields of a run
    """Return what was not there when the run was found: its record is written before the rest."""
    late: dict[str, Any] = {}
    if not run.num_gpus and found.num_gpus:
        late |= {"num_gpus": found.num_gpus, "gpu_type": found.gpu_type or None}
    if (run.config_text, run.plan_json) != (found.config_text, found.plan_json):
        late |= _config_fields(found) if found.config_text else {}
    return late


def _config_fields(found: FoundRun) -> dict[str, Any]:  # Any: fields of a run
    fields: dict[str, Any] = {"config_text": found.config_text, "plan_json": found.plan_json}
    plan = _plan(found.plan_json)
    if plan is not None:
        fields |= {"name": plan.name, "model": plan.model, "environments": plan.tasksets}
        fields |= {"max_steps": plan.max_steps}
    return fields


def _plan(text: str) -> RunPlan | None:
    try:
        return plan_from_json(text)
    except ValidationError:
        return None
