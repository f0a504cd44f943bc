"""The room of clusters: which GPUs are free on which node, and which runs hold the others; values.

Read by `runtime.control.local_runs` and `runtime.control.pod_runs`, judged by
`runtime.control.scheduler`. Nothing here looks at a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.cluster import ClusterProfile


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
    """The room of one cluster; one with a queue of its own (`queues`: Kueue) takes every run."""

    profile: ClusterProfile
    nodes: tuple[NodeRoom, ...]
    queues: bool = False

    @property
    def cluster(self) -> str:
        """Return the cluster's name."""
        return self.profile.name
