"""What a cluster's nodes offer to runs: one GpuOffer a GPU type, and what was left out. Pure.

Every node that is left out, and every difference in shape that is smoothed, is said. Called by
`runtime.kubernetes_discovery`; what a node object means is in `runtime.kubernetes_nodes`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime import gpus
from runtime.cluster import GpuOffer, Toleration
from runtime.kubernetes_nodes import (
    GPU_LABELS,
    GPU_RESOURCE,
    MEMORY_LABELS,
    Manifest,
    NodeFact,
    gpu_type_of,
    is_gpu_taint,
    node_fact,
    tolerates,
)

_OWN_TAINTS = "node.kubernetes.io/"  # the node controller's: a node that is down exists
_SHARED_RDMA = "rdma/"  # device plugins under this name hand out shares of a device


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeWishes:
    """What the cluster stack's settings say about nodes; prices are by GPU type in $/hour."""

    prices: Mapping[str, float]
    tolerations: tuple[Toleration, ...] = ()
    gpu_types: tuple[str, ...] = ()
    rdma_resource: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """The offers of a cluster's nodes, and a sentence for all that was left out or smoothed."""

    offers: tuple[GpuOffer, ...]
    remarks: tuple[str, ...]


def read_nodes(nodes: Iterable[Manifest], wishes: NodeWishes) -> NodeReport:
    """Return what the nodes offer to runs."""
    facts = [node_fact(node) for node in nodes if not _is_leaving(node)]
    by_type: dict[str, list[NodeFact]] = {}
    remarks: list[str] = []
    unknown: Counter[str] = Counter()
    for fact in facts:
        named = gpu_type_of(fact.labels)
        if named is None:
            if fact.num_gpus or any(key in fact.labels for key in GPU_LABELS):
                unknown[_said(fact)] += 1
        elif fact.num_gpus == 0:
            remarks.append(f"node {fact.name} is labelled {named[0]} and has no {GPU_RESOURCE}")
        elif not wishes.gpu_types or named[0] in wishes.gpu_types:
            by_type.setdefault(named[0], []).append(fact)
    for said, count in sorted(unknown.items()):
        remarks.append(f"{count} nodes have GPUs of no known type: {said}")
    offers = []
    for gpu_type, typed in sorted(by_type.items()):
        offer, said = _offer(gpu_type, typed, wishes)
        remarks += said
        if offer is not None:
            offers.append(offer)
    return NodeReport(offers=tuple(offers), remarks=tuple(_shortened(remarks)))


def _is_leaving(node: Manifest) -> bool:
    return "deletionTimestamp" in (node.get("metadata") or {})


def _said(fact: NodeFact) -> str:
    found = [f"{key}={fact.labels[key]}" for key in GPU_LABELS if key in fact.labels]
    return ", ".join(found) or f"{GPU_RESOURCE} without any of {', '.join(GPU_LABELS)}"


def _offer(
    gpu_type: str, typed: Sequence[NodeFact], wishes: NodeWishes
) -> tuple[GpuOffer | None, list[str]]:
    """Return the offer of a type's nodes and what to say about it."""
    remarks: list[str] = []
    usable, needed = [], {}
    for fact in typed:
        own = [_toleration(taint) for taint in fact.taints if is_gpu_taint(taint)]
        barred = [
            taint
            for taint in fact.taints
            if taint.get("effect") != "PreferNoSchedule"
            and not str(taint.get("key", "")).startswith(_OWN_TAINTS)
            and not tolerates((*wishes.tolerations, *own), taint)
        ]
        if barred:
            remarks.append(
                f"{gpu_type}: node {fact.name} is left out: taint {barred[0].get('key')} is not "
                "tolerated (paddock:tolerations)"
            )
            continue
        usable.append(fact)
        needed |= {one.model_dump_json(): one for one in own}
    if not usable:
        return None, remarks
    (key, value), selected = _selection(gpu_type, usable)
    if len(selected) < len(usable):
        remarks.append(
            f"{gpu_type}: {len(usable) - len(selected)} nodes without {key}={value} are left out: "
            "runs select nodes by one label"
        )
    gpus_per_node = _gpus_per_node(selected)
    whole = [fact for fact in selected if fact.num_gpus >= gpus_per_node]
    remarks += _shape_remarks(gpu_type, selected, whole, gpus_per_node)
    rdma, rdma_count, said = _rdma(gpu_type, whole, wishes.rdma_resource)
    offer = GpuOffer(
        name=gpu_type,
        num_nodes=len(whole),
        gpus_per_node=gpus_per_node,
        price_usd_per_hour=wishes.prices.get(gpu_type, gpus.GPU_TYPES[gpu_type].price_usd_per_hour),
        node_selector={key: value},
        tolerations=tuple(needed.values()),
        cpu_per_node=_smallest(whole, "cpu"),
        memory_gib_per_node=_smallest(whole, "memory_gib"),
        ephemeral_gib_per_node=_smallest(whole, "ephemeral_gib"),
        rdma_resource=rdma,
        rdma_per_node=rdma_count,
        hugepages_2mi_per_node=min(fact.hugepages_mib for fact in whole),
    )
    return offer, remarks + said


def _smallest(facts: Sequence[NodeFact], field: str) -> float | None:
    found = round(min(float(getattr(fact, field)) for fact in facts), 3)
    return found or None  # a node that does not say


def _selection(gpu_type: str, facts: Sequence[NodeFact]) -> tuple[tuple[str, str], list[NodeFact]]:
    """Return the one label that names the type on the most nodes, and those nodes."""
    counted: Counter[tuple[str, str]] = Counter()
    for fact in facts:
        for key in GPU_LABELS:
            if gpu_type_of({**_memory(fact), key: fact.labels.get(key, "")}) == (gpu_type, key):
                counted[key, fact.labels[key]] += 1
    rank = {key: index for index, key in enumerate(GPU_LABELS)}
    best = min(counted, key=lambda pair: (-counted[pair], rank[pair[0]], pair[1]))
    return best, [fact for fact in facts if fact.labels.get(best[0]) == best[1]]


def _memory(fact: NodeFact) -> dict[str, str]:
    return {key: fact.labels[key] for key in MEMORY_LABELS if key in fact.labels}


def _gpus_per_node(facts: Sequence[NodeFact]) -> int:
    """Return the GPUs a node by which most GPUs of the type can be used in whole nodes."""
    sizes = {fact.num_gpus for fact in facts}
    return max(sizes, key=lambda size: (size * sum(f.num_gpus >= size for f in facts), size))


def _shape_remarks(
    gpu_type: str, selected: Sequence[NodeFact], whole: Sequence[NodeFact], gpus_per_node: int
) -> list[str]:
    remarks = []
    sizes = sorted({fact.num_gpus for fact in selected})
    if len(sizes) > 1:
        remarks.append(
            f"{gpu_type}: nodes have {', '.join(map(str, sizes))} GPUs: offered are "
            f"{len(whole)} nodes of {gpus_per_node}"
        )
    for field, unit in (("cpu", "CPUs"), ("memory_gib", "GiB of memory")):
        values = sorted({round(float(getattr(fact, field)), 1) for fact in whole})
        if values[-1] > values[0] * 1.05:
            remarks.append(
                f"{gpu_type}: nodes have {values[0]:g} to {values[-1]:g} {unit}: the smallest "
                "shape is what runs ask for"
            )
    return remarks


def _rdma(
    gpu_type: str, facts: Sequence[NodeFact], asked: str | None
) -> tuple[str | None, int, list[str]]:
    """Return the RDMA resource that all the nodes have, how much a whole-node pod takes, remarks.

    One share of a device plugin that hands out shares is the node's whole fabric; devices that are
    handed out one by one (EFA, SR-IOV) are all taken.
    """
    everywhere = sorted(set.intersection(*(set(fact.rdma) for fact in facts)))
    somewhere = sorted(set.union(*(set(fact.rdma) for fact in facts)))
    remarks = []
    if asked is not None and asked not in everywhere:
        remarks.append(f"{gpu_type}: not every node has paddock:rdmaResource {asked}: no RDMA")
        return None, 0, remarks
    if not everywhere:
        if somewhere:
            remarks.append(f"{gpu_type}: only some nodes have {', '.join(somewhere)}: no RDMA")
        return None, 0, remarks
    name = asked or min(everywhere, key=lambda one: (not one.startswith(_SHARED_RDMA), one))
    if asked is None and len(everywhere) > 1:
        remarks.append(
            f"{gpu_type}: RDMA resources {', '.join(everywhere)}: {name} is used "
            "(paddock:rdmaResource chooses)"
        )
    count = 1 if name.startswith(_SHARED_RDMA) else min(fact.rdma[name] for fact in facts)
    return name, count, remarks


def _toleration(taint: Manifest) -> Toleration:
    return Toleration(key=str(taint["key"]), operator="Exists", effect=taint.get("effect"))


def _shortened(remarks: Sequence[str], most: int = 20) -> list[str]:
    if len(remarks) <= most:
        return list(remarks)
    return [*remarks[:most], f"and {len(remarks) - most} more like these"]
