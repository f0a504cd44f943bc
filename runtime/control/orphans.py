"""Orphans: what runs of this control plane left on clusters, on this machine, in the state backend.

Only what is provably its own is removed: it carries this control plane's id (pods, stacks), or lies
in a local cluster's state under the id of a stored run; and the run is over and torn down, or, of a
stack, the store does not know it and nothing of it lives. What carries another control plane's id
is not even reported.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from runtime.control.places import Leftover, Places
from runtime.control.stack_orphans import StackSweep, is_torn_down, with_held_gpus
from runtime.control.store import events, runs
from runtime.control.store.store import Store
from runtime.control.values import MICROUSD_PER_USD, Lease, StoredRun
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)

Verdict = Literal["removed", "kept", "stuck"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """Something left behind, what it has cost since its run's end, and what became of it."""

    leftover: Leftover
    why: str
    is_removable: bool
    cost_microusd: int = 0
    verdict: Verdict = "kept"

    def __str__(self) -> str:
        """Return the orphan on one line."""
        one = self.leftover
        cost = f", ${self.cost_microusd / MICROUSD_PER_USD:.2f} since" if self.cost_microusd else ""
        return (
            f"{one.kind} {one.name} of {one.run_id} on {one.cluster or 'no cluster'}: "
            f"{self.why}{cost}: {self.verdict}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanSweep:
    """Looks for orphans and removes those that are provably this control plane's."""

    store: Store
    places: Places
    stacks: StackSweep

    def sweep(self, now: datetime, fence: Lease | None) -> tuple[Orphan, ...]:
        """Remove what may be removed, and return everything that was found.

        `now` is the time of the database's clock.
        """
        found = self.places.leftovers()
        left_stacks = self.stacks.leftovers()
        with self.store.read() as tx:
            wanted = {one.run_id for one in (*found, *left_stacks)}
            stored = {run_id: runs.get_run(tx, run_id) for run_id in wanted}
        # a run that was torn down while the clusters were looked at has left nothing
        young = {run_id for run_id, run in stored.items() if run and run.updated_at > now}
        own = self.store.control_plane_id
        found = [one for one in found if one.run_id not in young]
        orphans = find_orphans(found, stored, control_plane_id=own)
        told = {one.leftover.run_id for one in orphans if one.leftover.num_gpus}
        rest = [one for one in found if one.run_id not in told]
        counted = [with_held_gpus(one, rest) for one in left_stacks if one.run_id not in young]
        orphans += find_orphans(counted, stored, control_plane_id=own)
        priced = [self._priced(one, stored.get(one.leftover.run_id), now) for one in orphans]
        settled = self._removed(priced, stored, fence)
        for one in settled:
            _LOG.warning("left behind: %s", one)
        return tuple(settled)

    def _removed(
        self,
        orphans: Iterable[Orphan],
        stored: Mapping[str, StoredRun | None],
        fence: Lease | None,
    ) -> list[Orphan]:
        """Remove what may be removed, and return all with what became of them."""
        swept: dict[str, Verdict] = {}
        settled = []
        for one in orphans:
            run_id, verdict = one.leftover.run_id, one.verdict
            run = stored.get(run_id)
            if one.is_removable and one.leftover.is_stack:
                verdict = self._remove_stack(one.leftover, run, fence)
            elif one.is_removable and run is not None:
                verdict = swept[run_id] = swept.get(run_id) or self._remove(run)
            settled.append(replace(one, verdict=verdict))
        return settled

    def sweep_safely(self, now: datetime, fence: Lease) -> None:
        """Sweep on a thread of its own: what fails is logged, and done again next time."""
        try:
            self.sweep(now, fence)
        except Exception:
            _LOG.exception("the sweep for orphans failed")

    def _priced(self, orphan: Orphan, run: StoredRun | None, now: datetime) -> Orphan:
        one = orphan.leftover
        since = run.ended_at if run is not None and run.ended_at is not None else one.started_at
        if not one.num_gpus or since is None:
            return orphan
        hours = max((now - since).total_seconds(), 0.0) / 3600
        price = self.places.price_usd_per_hour(one.cluster, one.gpu_type)
        cost = round(price * one.num_gpus * hours * MICROUSD_PER_USD)
        return replace(orphan, cost_microusd=cost)

    def _remove(self, run: StoredRun) -> Verdict:
        place = self.places.place_of(run)
        if place is None:
            return "kept"
        try:
            place.sweep(self.store.control_plane_id)
            verdict, words = "removed", "removed what was left of the run after its teardown"
        except PaddockError as error:
            verdict, words = "stuck", f"left behind after the teardown: {error}"
        self._tell(run, words)
        return verdict

    def _remove_stack(
        self, leftover: Leftover, run: StoredRun | None, fence: Lease | None
    ) -> Verdict:
        try:
            self.stacks.remove(leftover, fence)
        except PaddockError as error:
            _LOG.warning("stack %s: %s", leftover.name, error)
            self._tell(run, f"its stack was left behind after the teardown: {error}")
            return "stuck"
        self._tell(run, "removed the stack that was left of the run after its teardown")
        return "removed"

    def _tell(self, run: StoredRun | None, words: str) -> None:
        if run is not None:
            with self.store.write() as tx:
                events.add_event(tx, run, "notice", message=words)


def find_orphans(
    leftovers: Iterable[Leftover],
    stored: Mapping[str, StoredRun | None],
    *,
    control_plane_id: str,
) -> list[Orphan]:
    """Return what no live run of this control plane has; pure."""
    found = []
    for one in leftovers:
        if one.control_plane_id not in {"", control_plane_id}:
            continue
        run = stored.get(one.run_id)
        is_own = one.control_plane_id == control_plane_id or one.is_of_machine
        is_removable = is_own and not one.trouble
        if run is None and one.control_plane_id == control_plane_id:
            why = "carries this control plane's id, but the store does not know its run"
            is_removable = is_removable and one.is_stack
        elif run is not None and is_torn_down(run):
            why = f"its run is {run.state} and torn down"
            # a signed stack of an adopted run was this control plane's before a restore
            is_removable = is_removable and (one.is_stack or not run.is_adopted)
        else:
            continue
        why = f"{why}, and {one.trouble}" if one.trouble else why
        found.append(Orphan(leftover=one, why=why, is_removable=is_removable))
    return found
