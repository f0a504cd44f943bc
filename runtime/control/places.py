"""Where a run runs, as the reconciler sees it: one protocol for processes and for pods.

`runtime.control.local_runs` and `runtime.control.pod_runs` implement it over what commands by hand
use too; `runtime.control.run_places` finds the place of a stored run. Nothing here knows Pulumi.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from runtime.cluster import ClusterProfile
from runtime.control.rooms import ClusterRoom
from runtime.control.values import StoredRun
from runtime.observe.judge import Transition
from runtime.plan import RunPlan
from runtime.run_record import ExitDetails, RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class PodUse:
    """A time during which a pod, or a local run's slots, held GPUs."""

    source: str
    """Uid of the pod, or `slots`; unique within the attempt."""
    gpu_type: str
    num_gpus: int
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is seen of a run's current attempt at one moment.

    `transition` is the state that its record has by now, None where there is none of this attempt.
    `num_left` counts processes or pods that have not ended, as far as the last look showed.
    """

    transition: Transition | None = None
    since: datetime | None = None
    """When the run came into that state."""
    began_at: datetime | None = None
    """Since when earlier attempts hold nothing, where that can be told."""
    exit_details: ExitDetails | None = None
    is_reachable: bool = True
    silent_since: datetime | None = None
    """Since when its cluster does not answer."""
    elsewhere: str = ""
    """Where its cluster is another machine than this server's: only a server there can act."""
    is_unsettled: bool = False
    """Its supervisor died without a word: `settle` judges it and frees what it held."""
    is_torn_down: bool = False
    """Its record says that somebody has destroyed it."""
    uses: tuple[PodUse, ...] = ()
    num_left: int = 0
    preempted: bool = False
    preemption: str = ""
    """Why it lost its place."""
    has_checkpoint_step: int | None = None
    """The newest whole checkpoint; looked for only while a pause is wished."""
    are_checkpoints_known: bool = True
    """False where nobody could say: the cluster's file server does not answer."""
    warnings: tuple[str, ...] = ()


class RunPlace(Protocol):
    """The place of one run; the methods but `observe` may take as long as pods take to end."""

    def observe(self) -> Seen:
        """Return what is seen now, without waiting."""
        ...

    def settle(self) -> None:
        """Judge a run whose supervisor died, and free what it held."""
        ...

    def end_workloads(self, reason: str) -> None:
        """End everything that runs of this attempt and earlier ones; idempotent."""
        ...

    def num_left(self) -> int:
        """Return how many processes or pods of the run a read finds now."""
        ...

    def sweep(self, control_plane_id: str) -> None:
        """Remove everything that the run owns; only for one that is over and torn down.

        Of what can carry the id of a control plane only what carries this one.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRun:
    """A run that a cluster knows, by its record or its label."""

    cluster: str
    record: RunRecord
    control_plane_id: str = ""
    """Of the control plane that made it, empty where nobody says."""
    gpu_type: str = ""
    num_gpus: int = 0
    config_text: str = ""
    plan_json: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """Something of a run on a cluster, on a machine, or in the state backend.

    Whether it may be there the store knows.
    """

    cluster: str
    kind: str
    name: str
    run_id: str
    control_plane_id: str = ""
    is_of_machine: bool = False
    """It lies in a local cluster's state directory, where nothing carries a label."""
    gpu_type: str = ""
    num_gpus: int = 0
    started_at: datetime | None = None
    is_stack: bool = False
    """It is a stack of the state backend."""
    trouble: str = ""
    """Why it cannot be removed, whosever it is."""


class Places(Protocol):
    """The clusters of the control plane, and the places of runs on them."""

    def refresh(self) -> None:
        """Begin a pass: what is looked up for all runs at once is looked up again."""
        ...

    def place_of(self, run: StoredRun) -> RunPlace | None:
        """Return the place of a run, None while it has no cluster, or one that is not known."""
        ...

    def rooms(self) -> tuple[ClusterRoom, ...]:
        """Return the room of each cluster; one that does not answer has none, and says so."""
        ...

    def answering(self) -> frozenset[str]:
        """Return the clusters that show all of their runs now."""
        ...

    def found_runs(self) -> tuple[FoundRun, ...]:
        """Return the runs that the clusters know by their records."""
        ...

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return everything that carries a run's label or mark."""
        ...

    def price_usd_per_hour(self, cluster: str, gpu_type: str) -> float:
        """Return the price of a GPU for an hour, 0 where it is not known."""
        ...


class Clusters(Protocol):
    """The clusters that the control plane serves."""

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return their profiles by name."""
        ...

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return the folder of a volume of a local cluster, None where it is not known."""
        ...

    def is_shared(self, volume: str) -> bool | None:
        """Tell whether several nodes can mount a volume stack's claim, None where nobody knows."""
        ...


def on_volume(
    profile: ClusterProfile, plan: RunPlan, clusters: Clusters, volume: str
) -> ClusterProfile:
    """Return a cluster as a run on a volume stack sees it.

    The stack is read, by the engine, only for a run whose nodes share the volume.
    """
    if profile.target == "local" or plan.deployment != "multi_node":
        return profile
    return profile.on_volume(clusters.is_shared(volume))
