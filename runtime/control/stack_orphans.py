"""Stacks of the state backend that no live run has any more: found, and removed where they are own.

A stack is this control plane's own where its settings carry its id, or its store made the run. One
that cannot be opened is found and never touched; one of a run that lives somewhere is none. Part
of `runtime.control.orphans`.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from runtime import naming
from runtime.control.known_clusters import VOLUME_PREFIX
from runtime.control.operations import (
    Operation,
    OperationKind,
    OperationReport,
    OperationState,
    Operator,
)
from runtime.control.places import Leftover, Places
from runtime.control.stack_facts import StackFacts, Stacks
from runtime.control.stacks import ListedStack
from runtime.control.store import runs
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun
from runtime.errors import StackError
from runtime.naming import new_run_id
from runtime.states import Teardown

_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class StackSweep:
    """Finds and removes stacks; a removal is waited for until `is_over`."""

    store: Store
    stacks: Stacks
    places: Places
    operator: Operator
    is_over: threading.Event = field(default_factory=threading.Event)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return this control plane's stacks that no live run of the store has."""
        clusters = self.places.answering()
        listed = [one for one in self.stacks.listed() if _may_be_run(one.name, clusters)]
        with self.store.read() as tx:  # after the list: what is being made now is stored already
            stored = {one.name: runs.get_run(tx, one.name) for one in listed}
        found = []
        for stack in listed:
            run = stored[stack.name]
            if run is None or is_torn_down(run):
                facts = self.stacks.facts(stack.name)
                found.append(leftover_of(stack, facts, run, self.store.control_plane_id))
        left = [one for one in found if one is not None]
        held = frozenset(one.name for one in listed if one.num_resources)
        return tuple(self._guarded(left, stored, held)) if left else ()

    def remove(self, leftover: Leftover, fence: Lease | None) -> None:
        """Destroy and remove a stack; raises StackError with what the engine said."""
        for kind in (OperationKind.DESTROY, OperationKind.REMOVE):
            report = self._perform(kind, leftover, fence)
            if report.state is not OperationState.DONE:
                raise StackError(report.message)

    def _guarded(
        self,
        found: Iterable[Leftover],
        stored: Mapping[str, StoredRun | None],
        held: frozenset[str],
    ) -> Iterable[Leftover]:
        """Bar from removal what a cluster runs, or may run where the store does not know it."""
        answering = self.places.answering()
        live = {one.record.run_id for one in self.places.found_runs() if not one.record.is_over}
        for one in found:
            why = one.trouble
            if one.run_id in live:
                why = "its run lives"
            elif one.cluster not in answering and (stored[one.run_id] is None or one.name in held):
                why = f"cluster {one.cluster or 'of its run'} does not say whether its run lives"
            yield replace(one, trouble=why)

    def _perform(
        self, kind: OperationKind, leftover: Leftover, fence: Lease | None
    ) -> OperationReport:
        operation = Operation(
            operation_id=new_run_id(),
            kind=kind,
            run_id=leftover.run_id,
            attempt=1,
            cluster=leftover.cluster,
            lease=fence,
        )
        self.operator.start(operation)
        while True:
            report = self.operator.state(leftover.run_id)
            is_it = report is not None and report.operation_id == operation.operation_id
            if report is not None and is_it and report.state is not OperationState.RUNNING:
                return report
            if self.is_over.wait(_POLL_S):
                raise StackError(f"the server ended before the {kind} of {leftover.run_id} did")


def leftover_of(
    stack: ListedStack, facts: StackFacts, run: StoredRun | None, control_plane_id: str
) -> Leftover | None:
    """Return what a stack without a live run is, None where it is not this control plane's; pure.

    An empty stack may be removed by whoever cannot open it: it has nothing in it.
    """
    is_made_here = run is not None and not run.is_adopted
    kind = facts.settings.get("kind", "run" if is_made_here else None)
    # readable settings without the id are a person's: who went on with a run of ours by hand
    is_unread = is_made_here and not facts.settings
    owner = facts.settings.get("controlPlane") or (control_plane_id if is_unread else "")
    if kind != "run" or owner != control_plane_id:
        return None
    cluster = facts.settings.get("cluster") or (run.cluster if run is not None else "")
    return Leftover(
        cluster=str(cluster or ""),
        kind="stack",
        name=stack.name,
        run_id=stack.name,
        control_plane_id=control_plane_id,
        started_at=datetime.fromisoformat(stack.updated) if stack.updated else None,
        is_stack=True,
        trouble="" if stack.num_resources == 0 else facts.trouble,
    )


def with_held_gpus(stack: Leftover, others: Iterable[Leftover]) -> Leftover:
    """Return a stack's leftover with the GPUs that its run still holds on its cluster; pure."""
    held = [one for one in others if one.run_id == stack.run_id and one.num_gpus]
    if not held:
        return stack
    num_gpus = sum(one.num_gpus for one in held)
    return replace(stack, num_gpus=num_gpus, gpu_type=held[0].gpu_type)


def _may_be_run(name: str, clusters: frozenset[str]) -> bool:
    """Tell whether a stack has to be read, which takes starts of the engine."""
    is_other = name in clusters or name.startswith(VOLUME_PREFIX)
    return naming.is_run_id(name) and not is_other


def is_torn_down(run: StoredRun) -> bool:
    """Tell whether nothing of a run should be left."""
    return run.is_over and run.teardown is Teardown.DONE
