"""Orphans: what runs of this control plane left on clusters and on this machine after their end.

Only what is provably its own is removed: it carries this control plane's id (pods), or lies in a
local cluster's state under the id of a stored run; and the run is over and torn down. What carries
another control plane's id is not even reported.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from runtime.control.places import Leftover, Places
from runtime.control.store import events, runs
from runtime.control.store.store import Store
from runtime.control.values import MICROUSD_PER_USD, StoredRun
from runtime.errors import PaddockError
from runtime.states import Teardown

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
            f"{one.kind} {one.name} of {one.run_id} on {one.cluster}: {self.why}{cost}: "
            f"{self.verdict}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanSweep:
    """Looks for orphans and removes those that are provably this control plane's."""

    store: Store
    places: Places

    def sweep(self, now: datetime) -> tuple[Orphan, ...]:
        """Remove what may be removed, and return everything that was found.

        `now` is the time of the database's clock.
        """
        found = self.places.leftovers()
        with self.store.read() as tx:
            wanted = {one.run_id for one in found}
            stored = {run_id: runs.get_run(tx, run_id) for run_id in wanted}
        # a run that was torn down while the clusters were looked at has left nothing
        young = {run_id for run_id, run in stored.items() if run and run.updated_at > now}
        found = tuple(one for one in found if one.run_id not in young)
        orphans = find_orphans(found, stored, control_plane_id=self.store.control_plane_id)
        priced = [self._priced(one, stored.get(one.leftover.run_id), now) for one in orphans]
        verdicts = {
            run_id: self._remove(run)
            for run_id, run in stored.items()
            if run is not None
            and any(one.is_removable and one.leftover.run_id == run_id for one in priced)
        }
        told = [
            replace(one, verdict=verdicts[one.leftover.run_id]) if one.is_removable else one
            for one in priced
        ]
        for one in told:
            _LOG.warning("left behind: %s", one)
        return tuple(told)

    def sweep_safely(self, now: datetime) -> None:
        """Sweep on a thread of its own: what fails is logged, and done again next time."""
        try:
            self.sweep(now)
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
            place.sweep()
            verdict, words = "removed", "removed what was left of the run after its teardown"
        except PaddockError as error:
            verdict, words = "stuck", f"left behind after the teardown: {error}"
        with self.store.write() as tx:
            events.add_event(tx, run, "notice", message=words)
        return verdict


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
        if run is None and one.control_plane_id == control_plane_id:
            why = "carries this control plane's id, but the store does not know its run"
            found.append(Orphan(leftover=one, why=why, is_removable=False))
        elif run is not None and _is_torn_down(run):
            why = f"its run is {run.state} and torn down"
            is_removable = is_own and not run.is_adopted
            found.append(Orphan(leftover=one, why=why, is_removable=is_removable))
    return found


def _is_torn_down(run: StoredRun) -> bool:
    return run.is_over and run.teardown is Teardown.DONE
