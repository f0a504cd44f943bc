"""Which queued run starts where: first in, first out, judged from rooms alone. Pure.

A later run may start only where the head cannot run at all: a head that waits for a cluster keeps
all of that cluster's room for itself. A cluster that makes nodes on demand has room for as many as
its offer says, less those of promoted runs, whether they are there yet or not. Elsewhere a run that
needs more nodes than there are now waits for those of the offer, and keeps its place: they are away
for a repair, or an autoscaler's to make. Called by `runtime.control.promotions`.
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
    room: ClusterRoom
    free: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    holder: str = ""
    """The earliest run that waits for this pool; nobody else takes of it."""

    def could_hold(self, parts: Sequence[int]) -> bool:
        """Tell whether the parts fit on the nodes that exist, where nothing else runs."""
        if self.room.queues:
            return True  # its own queue judges, and says so
        sizes = self.sizes if any(self.sizes) else _offered(self.offer)
        return self._fitted(sizes, parts) is not None

    def is_offered(self, parts: Sequence[int]) -> bool:
        """Tell whether the parts fit once all nodes of the offer are there."""
        return self._fitted(_offered(self.offer), parts) is not None

    def without(self, parts: Sequence[int]) -> list[int] | None:
        """Return what is left free once the parts have their room, None where one has none."""
        if self.room.trouble:
            return None
        return self.free if self.room.queues else self._fitted(self.free, parts)

    def words(self) -> str:
        """Return what there is to say of the pool to a run that waits for it."""
        if self.room.trouble:
            return self.room.trouble
        free = f"{sum(self.free)} of {sum(self.sizes)} {self.offer.name}"
        words = f"{free} are free on {self.room.cluster}"
        num_nodes = sum(size > 0 for size in self.sizes)
        if num_nodes < self.offer.num_nodes:
            words += f", which has {num_nodes} of its {self.offer.num_nodes} nodes now"
        return words

    def _fitted(self, nodes: Sequence[int], parts: Sequence[int]) -> list[int] | None:
        if self.room.makes_nodes:  # nobody else runs on a run's own nodes
            parts = [max(part, self.offer.gpus_per_node) for part in parts]
        return _packed(nodes, parts)


def plan_promotions(
    queued: Sequence[QueuedRun], rooms: Sequence[ClusterRoom], in_use: Sequence[Reservation]
) -> list[Promotion | Waiting]:
    """Return what becomes of each queued run, in their order."""
    pools = [pool for room in rooms for pool in _pools(room, in_use)]
    known = {room.cluster for room in rooms}
    answers: list[Promotion | Waiting] = []
    ahead = 0
    for run in queued:
        allowed = [pool for pool in pools if _is_allowed(run, pool)]
        fitting = [pool for pool in allowed if pool.could_hold(run.parts)]
        fitting = fitting or [pool for pool in allowed if pool.is_offered(run.parts)]
        answer = _place(run, fitting, ahead=ahead, is_known=not run.cluster or run.cluster in known)
        answers.append(answer)
        ahead += isinstance(answer, Waiting)
    return answers


def _pools(room: ClusterRoom, in_use: Sequence[Reservation]) -> list[_Pool]:
    here = [one for one in in_use if one.cluster == room.cluster]
    found = []
    for offer in room.profile.gpus:
        reserved = [one for one in here if one.gpu_type in {None, offer.name}]
        make = _made_on_demand if room.makes_nodes else _reserved
        found.append(make(room, offer, reserved))
    return found


def _made_on_demand(room: ClusterRoom, offer: GpuOffer, reserved: Sequence[Reservation]) -> _Pool:
    """Return the nodes that an offer speaks of, less those of the runs that have or await them."""
    taken = room.nodes_held(offer.name) | Counter({one.run_id: len(one.parts) for one in reserved})
    sizes = _offered(offer)
    return _Pool(offer=offer, room=room, free=sizes[taken.total() :], sizes=sizes)


def _reserved(room: ClusterRoom, offer: GpuOffer, reserved: Sequence[Reservation]) -> _Pool:
    """Return the nodes of an offer that exist, less what promoted runs have yet to take.

    All of them where none exists: pods bring them. Where only some are missing they may be broken,
    and the pods of a run of several nodes would hold the others until those come back.
    """
    held = Counter[str]()
    for node in room.nodes:
        held.update(node.held)
    nodes = [node for node in room.nodes if node.gpu_type == offer.name]
    free, sizes = [node.num_free for node in nodes], [node.num_gpus for node in nodes]
    if room.has_no_node(offer):
        sizes, free = _offered(offer), _offered(offer)
    pool = _Pool(offer=offer, room=room, free=free, sizes=sizes)
    for one in reserved:
        _reserve(pool, one, held)
    return pool


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
    return run.cluster in {None, pool.room.cluster} and run.gpu_type in {None, pool.offer.name}


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
        packed = pool.without(run.parts)
        if packed is None:
            continue
        pool.free = packed
        if not run.is_ready:
            return Waiting(run_id=run.run_id, reason="its stack is being made", ahead=ahead)
        return Promotion(
            run_id=run.run_id,
            cluster=pool.room.cluster,
            gpu_type=pool.offer.name,
            is_queued_there=pool.room.queues,
        )
    for pool in pools:
        pool.holder = pool.holder or run.run_id
    return Waiting(run_id=run.run_id, reason=_shortage(run, pools), ahead=ahead)


def _shortage(run: QueuedRun, pools: Sequence[_Pool]) -> str:
    if not all(pool.holder == run.run_id for pool in pools):
        return f"waits behind earlier runs for {_asked(run)}"
    free = ", ".join(dict.fromkeys(pool.words() for pool in pools))  # a cluster's trouble once
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


def _offered(offer: GpuOffer) -> list[int]:
    """Return the GPUs of each node that an offer speaks of."""
    return [offer.gpus_per_node] * offer.num_nodes


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
