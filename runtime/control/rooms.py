"""The room of clusters: which GPUs are free on which node, and which runs hold the others; values.

Read by `runtime.control.local_runs` and `runtime.control.pod_runs`, judged by
`runtime.control.scheduler`. Nothing here looks at a cluster.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.cluster import ClusterProfile, GpuOffer


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRoom:
    """The GPUs of one node (local: all slots); `held` are GPUs by run id, within the used ones."""

    name: str
    gpu_type: str
    num_gpus: int
    num_free: int
    held: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRoom:
    """The room of one cluster; one with a queue of its own (`queues`: Kueue) takes every run.

    `trouble` says why the room is not known; then nothing starts there.
    """

    profile: ClusterProfile
    nodes: tuple[NodeRoom, ...]
    queues: bool = False
    trouble: str = ""

    @property
    def cluster(self) -> str:
        """Return the cluster's name."""
        return self.profile.name

    @property
    def makes_nodes(self) -> bool:
        """Tell whether a run gets whole nodes of its own, made once its pods wait for them.

        Nodes that exist are other runs'; what can be had is what the offer says (Karpenter).
        """
        offer = self.profile.kubernetes
        return offer is not None and offer.node_class is not None

    def nodes_held(self, gpu_type: str) -> Counter[str]:
        """Return on how many nodes of a type each run holds GPUs, by run id."""
        nodes = (node for node in self.nodes if node.gpu_type == gpu_type)
        return Counter(run_id for node in nodes for run_id in node.held)

    def has_no_node(self, offer: GpuOffer) -> bool:
        """Tell whether pods of a type must come before its nodes do (an autoscaler, from zero)."""
        is_read = self.profile.kubernetes is not None and not self.trouble and not self.queues
        return is_read and all(node.gpu_type != offer.name for node in self.nodes)

    def has_free(self, offer: GpuOffer) -> bool:
        """Tell whether a run of one GPU of a type could start now, or would queue there."""
        if self.trouble:
            return False
        if self.queues or self.has_no_node(offer):
            return True
        if self.makes_nodes:
            return self.nodes_held(offer.name).total() < offer.num_nodes
        return any(node.gpu_type == offer.name and node.num_free > 0 for node in self.nodes)
