"""Cause: one reason for a run's failure, with its time and the words that name it. Pure.

Found in a pod's containers by `container_causes`, in what was done to the pod by `pod_causes`; put
into an order by `causes`.
"""

from dataclasses import dataclass
from enum import IntEnum

from runtime import pod_layout
from runtime.observe.kubernetes.facts import PodFact
from runtime.observe.kubernetes.launched import LaunchedPod


class Rank(IntEnum):
    """Order of causes of the same second: what failed by itself comes before what was ended."""

    FAILED = 0
    DELETED = 1
    LOST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """What happened to which component and when; `words` follow the component's name."""

    time: float
    rank: Rank = Rank.FAILED
    launched: LaunchedPod
    words: str
    pod: PodFact | None = None
    container: str = pod_layout.MAIN
    exit_code: int | None = None
    signal: str | None = None

    def text(self) -> str:
        """Return the cause as a run's reason: component, source, pod, node, and what happened."""
        place = [f"source {self.launched.source}"] if self.launched.source else []
        if self.pod is not None:
            node = f" on {self.pod.node}" if self.pod.node else ""
            place.append(f"pod {self.pod.name}{node}")
        where = f" ({', '.join(place)})" if place else ""
        return f"{self.launched.component}{where} {self.words}"
