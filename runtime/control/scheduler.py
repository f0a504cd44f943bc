"""Which queued run starts where: first in, first out, judged from rooms alone. Pure.

A later run may start only where the head cannot run at all: a head that waits for a cluster keeps
all of that cluster's room for itself. Called by `runtime.control.promotions`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.cluster import GpuOffer
from runtime.control.rooms import ClusterRoom


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedRun:
    """A run that waits; `parts` are the GPUs that must be on one node each, one entry a node.

    One that is not `is_ready` (its stack is still being made) keeps its place and its room.
    """

    run_id: str
    parts: tuple[int, ...]
    cluster: str | None = None
    gpu_type: str | None = None
    is_ready: bool = True

    @property
    def num_gpus(self) -> int:
        """Return all GPUs."""
        return sum(self.parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What a run that was promoted holds, whether its processes are there yet or not."""

    run_id: str
    cluster: str
    gpu_type: str | None
    parts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """A run that starts now."""

    run_id: str
    cluster: str
    gpu_type: str
    is_queued_there: bool = False
    """The cluster has a queue of its own: it says when the run has a place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A run that waits, why, and how many runs stand before it."""

    run_id: str
    reason: str
    ahead: int


@dataclass(slots=True)
class _Pool:
    """The free GPUs of the nodes of one type on one cluster, while a plan is made."""

    offer: GpuOffer
    cluster: str
    queues: bool
    free: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    holder: str = ""
    """The earliest run that waits for this pool; nobody else takes of it."""

    def could_hold(self, parts: Sequence[int]) -> bool:
        """Tell whether the parts fit where nothing else runs."""
        if self.queues:
            return True  # its own queue judges, and says so
        sizes = self.sizes or [self.offer.gpus_per_node] * self.offer.num_nodes
        return _packed(sizes, parts) is not None


def plan_promotions(
    queued: Sequence[QueuedRun], rooms: Sequence[ClusterRoom], in_use: Sequence[Reservation]
) -> list[Promotion | Waiting]:
    """Return what becomes of each queued run, in their order."""
    pools = [pool for room in rooms for pool in _pools(room, in_use)]
    known = {room.cluster for room in rooms}
    answers: list[Promotion | Waiting] = []
    ahead = 0
    for run in queued:
        fitting = [pool for pool in pools if _is_allowed(run, pool)]
        answer = _place(run, fitting, ahead=ahead, is_known=not run.cluster or run.cluster in known)
        answers.append(answer)
        ahead += isinstance(answer, Waiting)
    return answers


def _pools(room: ClusterRoom, in_use: Sequence[Reservation]) -> list[_Pool]:
    held = Counter[str]()
    for node in room.nodes:
        held.update(node.held)
    found = []
    for offer in room.profile.gpus:
        nodes = [node for node in room.nodes if node.gpu_type == offer.name]
        pool = _Pool(
            offer=offer,
            cluster=room.cluster,
            queues=room.queues,
            free=[node.num_free for node in nodes],
            sizes=[node.num_gpus for node in nodes],
        )
        for one in in_use:
            if one.cluster == room.cluster and one.gpu_type in {None, offer.name}:
                _reserve(pool, one, held)
        found.append(pool)
    return found


def _reserve(pool: _Pool, one: Reservation, held: Mapping[str, int]) -> None:
    """Take what a promoted run will hold but does not hold yet."""
    missing = sum(one.parts) - held.get(one.run_id, 0)
    for part in sorted(one.parts, reverse=True):
        wanted = min(part, missing)
        if wanted <= 0:
            return
        missing -= wanted
        packed = _packed(pool.free, [wanted])
        if packed is not None:
            pool.free = packed
            continue
        for index, free in enumerate(pool.free):  # more than fits: it takes what there is
            taken = min(free, wanted)
            pool.free[index] -= taken
            wanted -= taken


def _is_allowed(run: QueuedRun, pool: _Pool) -> bool:
    is_there = run.cluster in {None, pool.cluster} and run.gpu_type in {None, pool.offer.name}
    return is_there and pool.could_hold(run.parts)


def _place(
    run: QueuedRun, pools: Sequence[_Pool], *, ahead: int, is_known: bool
) -> Promotion | Waiting:
    if not is_known:
        reason = f"cluster {run.cluster} does not answer"
        return Waiting(run_id=run.run_id, reason=reason, ahead=ahead)
    if not pools:
        return Waiting(run_id=run.run_id, reason=_nowhere(run), ahead=ahead)
    # the cheapest first; among equals the fullest, so that large gaps stay
    for pool in sorted(pools, key=lambda one: (one.offer.price_usd_per_hour, sum(one.free))):
        if pool.holder:
            continue
        packed = pool.free if pool.queues else _packed(pool.free, run.parts)
        if packed is None:
            continue
        pool.free = packed
        if not run.is_ready:
            return Waiting(run_id=run.run_id, reason="its stack is being made", ahead=ahead)
        return Promotion(
            run_id=run.run_id,
            cluster=pool.cluster,
            gpu_type=pool.offer.name,
            is_queued_there=pool.queues,
        )
    for pool in pools:
        pool.holder = pool.holder or run.run_id
    return Waiting(run_id=run.run_id, reason=_shortage(run, pools), ahead=ahead)


def _shortage(run: QueuedRun, pools: Sequence[_Pool]) -> str:
    if not all(pool.holder == run.run_id for pool in pools):
        return f"waits behind earlier runs for {_asked(run)}"
    free = ", ".join(
        f"{sum(pool.free)} of {sum(pool.sizes)} {pool.offer.name} are free on {pool.cluster}"
        for pool in pools
    )
    where = " on one node" if len(run.parts) == 1 and len(pools[0].sizes) > 1 else ""
    return f"needs {_asked(run)}{where}: {free}"


def _nowhere(run: QueuedRun) -> str:
    where = f"cluster {run.cluster}" if run.cluster else "no cluster"
    verb = "does not have" if run.cluster else "has"
    return f"{where} {verb} {_asked(run)}, free or not"


def _asked(run: QueuedRun) -> str:
    kind = run.gpu_type or ("GPUs" if run.num_gpus != 1 else "GPU")
    if len(run.parts) > 1:
        return f"{len(run.parts)} nodes of {run.parts[0]} {kind}"
    return f"{run.num_gpus} {kind}"


def _packed(free: Sequence[int], parts: Sequence[int]) -> list[int] | None:
    """Return what is left of the nodes once each part has its own room, None where one has none.

    The largest part first, into the fullest node that still takes it.
    """
    left = list(free)
    for part in sorted(parts, reverse=True):
        fitting = [index for index, room in enumerate(left) if room >= part]
        if not fitting:
            return None
        left[min(fitting, key=lambda index: left[index])] -= part
    return left
