"""Facts of a run's pods, Jobs and Workload: what the judge and the CLI need, as plain values.

A fact keeps few fields, so that a watch over many runs stays small. They are read from the API's
objects by `runtime.observe.kubernetes.objects`; what they mean is in `judge`.
"""

from dataclasses import dataclass, field
from typing import Literal

from runtime import pod_layout

ContainerState = Literal["none", "waiting", "running", "terminated"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WrapperEnd:
    """What a component's wrapper left for kubelet when it ended (runtime/launch/wrapper.py)."""

    component: str = ""
    outcome: str = ""
    reason: str = ""
    exit_code: int | None = None
    signal: str | None = None
    end_mark: bool = False
    oom_kills: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerFact:
    """One container; times are Unix times in seconds. `end` is its wrapper's own word."""

    name: str
    is_init: bool = False
    state: ContainerState = "none"
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started: float | None = None
    finished: float | None = None
    end: WrapperEnd | None = None
    image: str = ""
    memory_limit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disruption:
    """Why something other than the pod itself ended it: an eviction, a taint, a lost node."""

    reason: str
    message: str
    time: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PullFact:
    """What kubelet's events say of a pod's images."""

    is_pulling: bool = False
    image: str = ""
    failing_since: float | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodFact:
    """One pod of a run. `key` is its place in the attempt, as in launch.json: `inference-0-1`.

    `deletion_asked` is when somebody asked for its deletion, `gone_at` when the API was seen to
    have it no more. `not_ready_since` is set where its node, not the pod, stopped being ready.
    """

    name: str
    uid: str
    run_id: str
    attempt: int
    key: str
    job: str
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    created: float | None = None
    is_scheduled: bool = False
    schedule_message: str = ""
    disruption: Disruption | None = None
    deletion_asked: float | None = None
    gone_at: float | None = None
    not_ready_since: float | None = None
    containers: tuple[ContainerFact, ...] = ()
    num_gpus: int = 0
    rdma: str = ""
    """The extended resource of its RDMA devices, empty without."""
    pull: PullFact = field(default_factory=PullFact)
    trouble: str = ""
    """What kubelet's last warning event says: a volume that cannot be mounted, for example."""

    @property
    def main(self) -> ContainerFact:
        """Return the component's container."""
        return self.container(pod_layout.MAIN)

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of it runs any more."""
        return self.gone_at is not None or self.phase in {"Succeeded", "Failed"}

    def container(self, name: str) -> ContainerFact:
        """Return a container by its name; an empty fact where there is none."""
        empty = ContainerFact(name=name)
        return next((one for one in self.containers if one.name == name), empty)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFact:
    """One Job of a run, or its JobSet."""

    name: str
    uid: str
    run_id: str
    attempt: int
    num_pods: int = 0
    created: float | None = None
    is_deleted: bool = False
    is_suspended: bool = False
    failure: str = ""
    """Kubernetes' reason for which it failed, empty while it did not."""
    failure_message: str = ""
    failed_at: float | None = None
    trouble: str = ""
    """What the last warning event says: a quota that refuses its pods, for example."""


WorkloadState = Literal[
    "queued", "never", "reserved", "admitted", "evicted", "deactivated", "finished"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadFact:
    """Kueue's Workload of a run. `never` means that no waiting gives it a place."""

    name: str
    owners: tuple[str, ...] = ()
    queue: str = ""
    state: WorkloadState = "queued"
    reason: str = ""
    message: str = ""
    time: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What is seen of one attempt of a run at one moment; `time` is a Unix time in seconds.

    `pods` holds those that are gone too, as they were last seen. `last_step` is looked up only
    where it decides, None where nobody knows; `is_step_unknown` says that it cannot be asked for
    right now. `workloads_gone_since` is set once its Jobs were seen and are no longer there.
    """

    run_id: str
    attempt: int
    time: float
    pods: tuple[PodFact, ...] = ()
    jobs: tuple[JobFact, ...] = ()
    job_set: JobFact | None = None
    workload: WorkloadFact | None = None
    last_step: int | None = None
    is_step_unknown: bool = False
    workloads_gone_since: float | None = None
