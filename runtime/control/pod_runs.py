"""Runs in pods as the reconciler sees them, one place a run, over the cluster's shared sight.

Counterpart of `runtime.control.local_runs`.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from runtime.checkpoints import steps_of
from runtime.control.places import PodUse, Seen
from runtime.control.pod_sight import PodSight
from runtime.control.values import StoredRun, Wish
from runtime.kubernetes_run import stop_workloads
from runtime.kubernetes_teardown import Owned, end_workloads, remove_rest
from runtime.observe.judge import Transition
from runtime.observe.kubernetes.facts import PodFact
from runtime.observe.kubernetes.run_files import FilesUnavailableError
from runtime.states import RunState, Teardown


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlace:
    """The place of one run on a cluster."""

    run: StoredRun
    sight: PodSight

    def observe(self) -> Seen:
        """Return what the watch shows, after the observer wrote what follows from it."""
        view = self.sight.view(self.run.run_id)
        if view is None:
            return Seen(is_reachable=self.sight.is_current)
        record = view.record
        silent = view.unreachable_since
        is_reachable = silent is None and self.sight.is_current
        if record.attempt != self.run.attempt:
            is_next = record.attempt == self.run.attempt + 1 and record.state is RunState.QUEUED
            return Seen(
                is_reachable=is_reachable,
                preempted=is_next,
                preemption=record.reason if is_next else "",
                num_left=_num_live(view.facts.pods),
            )
        step, is_known = self._checkpoint()
        return Seen(
            transition=Transition(state=record.state, reason=view.waits_for or record.reason),
            since=record.times[-1].time,
            # an `up` ends the workloads of the attempt before, then opens the record of the next
            began_at=next(
                (one.time for one in record.times if one.attempt == record.attempt), None
            ),
            exit_details=record.exit,
            is_reachable=is_reachable,
            silent_since=_time(silent) if silent is not None else None,
            is_torn_down=record.teardown is Teardown.DONE,
            uses=tuple(_uses(view.facts.pods, self.run.gpu_type or "")),
            num_left=_num_live(view.facts.pods),
            has_checkpoint_step=step,
            are_checkpoints_known=is_known,
            warnings=record.warnings,
        )

    def settle(self) -> None:
        """Do nothing: the observer judges pods whoever else lives."""

    def end_workloads(self, reason: str) -> None:
        """Delete the Jobs and pods of this attempt and earlier ones, and wait until none is left.

        Raises TeardownStuckError naming what does not go.
        """
        owned = Owned(run_id=self.run.run_id, up_to_attempt=self.run.attempt)
        stop_workloads(self.sight.api, owned, self.run.attempt, reason=reason)
        self.sight.forget(self.run.run_id)

    def num_left(self) -> int:
        """Return how many pods of the run the API has now, ended ones included."""
        owned = Owned(run_id=self.run.run_id, made=frozenset({"Pod"}))
        return len(owned.find(self.sight.api, ("Pod",)))

    def sweep(self, control_plane_id: str) -> None:
        """Delete every object that carries the run's label and the control plane's id."""
        owned = Owned(run_id=self.run.run_id, control_plane=control_plane_id)
        end_workloads(self.sight.api, owned)
        remove_rest(self.sight.api, owned)

    def _checkpoint(self) -> tuple[int | None, bool]:
        """Return the newest whole checkpoint, and whether that could be found out."""
        if self.run.wish is not Wish.PAUSE:
            return None, True
        files, run_id = self.sight.files, self.run.run_id
        with contextlib.suppress(FilesUnavailableError):
            for step in reversed(steps_of(files.names(run_id, "checkpoints"))):
                # both halves are there: the trainer's and the orchestrator's own progress
                if {"trainer", "orchestrator"} <= {
                    *files.names(run_id, f"checkpoints/step_{step}")
                }:
                    return step, True
            return None, True
        return None, False


def _num_live(pods: Iterable[PodFact]) -> int:
    return sum(not pod.is_over for pod in pods)


def _uses(pods: Iterable[PodFact], gpu_type: str) -> Iterator[PodUse]:
    """Yield when each pod held its GPUs: from its first container's start to its last one's end.

    A node is paid for from the moment a pod is bound to it; containers start right after.
    """
    for pod in pods:
        starts = [one.started for one in pod.containers if one.started is not None]
        if not pod.num_gpus or not starts:
            continue
        ends = [one.finished for one in pod.containers if one.finished is not None]
        ended = max(ends) if ends else pod.gone_at
        yield PodUse(
            source=pod.uid,
            gpu_type=gpu_type,
            num_gpus=pod.num_gpus,
            started_at=_time(min(starts)),
            ended_at=_time(ended) if pod.is_over and ended is not None else None,
        )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
