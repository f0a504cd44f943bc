"""RunIndex: the newest facts of many runs in memory, kept up to date from lists and watches.

A change costs the objects of its own run, whatever else there is. An object that is deleted stays
as it was last seen while its run lives; a run that is over and gone leaves next to nothing. Not
thread-safe: `runtime.observe.kubernetes.watch` holds a lock around it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.errors import RunStateError
from runtime.kubernetes_record import record_of
from runtime.observe.kubernetes import events
from runtime.observe.kubernetes.events import EventFold
from runtime.observe.kubernetes.facts import JobFact, PodFact, RunFacts, WorkloadFact
from runtime.observe.kubernetes.objects import job_fact, pod_fact
from runtime.observe.kubernetes.workload import workload_fact
from runtime.pod_names import record_name, workload_name
from runtime.run_record import RunRecord
from runtime.states import RunState

Manifest = Mapping[str, Any]  # Any: a Kubernetes object

DELETED = "DELETED"
_MAX_FOLDS = 10_000
"""Objects whose events are remembered, those that belong to nobody's run included."""

KEEP_S = 60.0
"""How long the pods of a run that is over are remembered: bills go by when they really ended."""


@dataclass(slots=True)
class _Run:
    record: RunRecord | None = None
    pods: dict[str, PodFact] = field(default_factory=dict)
    jobs: dict[str, JobFact] = field(default_factory=dict)
    job_sets: dict[str, JobFact] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    had_jobs: set[int] = field(default_factory=set)
    gone_since: dict[int, float] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        is_over = self.record is None or self.record.is_over
        is_gone = all(pod.gone_at is not None for pod in self.pods.values())
        return is_over and is_gone and not self.jobs and not self.job_sets


class RunIndex:
    """Facts by run id; `clock` gives the time of what is seen to be gone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty."""
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._owners: dict[str, str] = {}
        self._folds: OrderedDict[str, EventFold] = OrderedDict()
        self._workloads: dict[str, WorkloadFact] = {}
        self._workload_of: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        self._leaving: dict[str, float] = {}

    def take_list(self, kind: str, objects: Iterable[Manifest]) -> set[str]:
        """Take in all objects of a kind; return the runs that changed.

        What is not among them any more was deleted while nobody watched.
        """
        listed = list(objects)
        names = {_name(one) for one in listed}
        changed: set[str] = set()
        for name in self._names.get(kind, set()) - names:
            changed |= self._forget(kind, name)
        for one in listed:
            changed |= self.take(kind, "ADDED", one)
        return changed

    def take(self, kind: str, change: str, manifest: Manifest) -> set[str]:
        """Take in one event of a watch; return the ids of the runs that changed."""
        self._drop_what_left()
        name = _name(manifest)
        if kind == "Event":
            return self._take_event(manifest) if change != DELETED else set()
        known = self._names.setdefault(kind, set())
        if change == DELETED:
            if kind == "Pod":
                self._take_pod(name, pod_fact(manifest))  # as it ended
            return self._forget(kind, name)
        known.add(name)
        if kind == "Pod":
            return self._take_pod(name, pod_fact(manifest))
        if kind in {"Job", "JobSet"}:
            return self._take_job(kind, job_fact(manifest))
        if kind == "Workload":
            return self._take_workload(workload_fact(manifest))
        return self._take_record(manifest)

    def run_ids(self) -> list[str]:
        """Return the ids of all runs that something is known of."""
        return list(self._runs)

    def live_run_ids(self) -> list[str]:
        """Return the ids of the runs whose record says that they live."""
        return [
            run_id
            for run_id, run in self._runs.items()
            if run.record is not None and not run.record.is_over
        ]

    def open_run_ids(self) -> list[str]:
        """Return the ids of the runs that live, or whose pods still do."""
        return [
            run_id
            for run_id, run in self._runs.items()
            if run.record is not None
            and (not run.record.is_over or any(not pod.is_over for pod in run.pods.values()))
        ]

    def record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run as last seen; of one that is over, its state and times."""
        run = self._runs.get(run_id)
        return run.record if run is not None else None

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        """Return what is known of one attempt."""
        run = self._runs.get(run_id) or _Run()
        jobs = tuple(self._troubled(job) for job in run.jobs.values() if job.attempt == attempt)
        sets = [one for one in run.job_sets.values() if one.attempt == attempt]
        return RunFacts(
            run_id=run_id,
            attempt=attempt,
            time=self._clock(),
            pods=self._pods(run, attempt),
            jobs=jobs,
            job_set=sets[0] if sets else None,
            workload=self._workload(run_id, attempt, jobs),
            workloads_gone_since=self._gone_since(run, attempt, is_there=bool(jobs or sets)),
        )

    def _take_pod(self, name: str, pod: PodFact | None) -> set[str]:
        if pod is None:
            return set()
        self._owned(pod.run_id, name).pods[name] = pod
        return {pod.run_id}

    def _take_job(self, kind: str, job: JobFact | None) -> set[str]:
        if job is None:
            return set()
        run = self._owned(job.run_id, job.name)
        (run.jobs if kind == "Job" else run.job_sets)[job.name] = job
        run.had_jobs.add(job.attempt)
        return {job.run_id}

    def _take_workload(self, workload: WorkloadFact) -> set[str]:
        self._workloads[workload.name] = workload
        self._workload_of |= dict.fromkeys(workload.owners, workload.name)
        return {self._owners[owner] for owner in workload.owners if owner in self._owners}

    def _take_record(self, manifest: Manifest) -> set[str]:
        try:
            record = record_of(dict(manifest))
        except RunStateError:
            return set()  # somebody's edit; whoever writes the record next says so
        if record is None:
            return set()
        if record.is_over:
            record = record.model_copy(update={"exit": None})
        self._owned(record.run_id, _name(manifest)).record = record
        self._drop_if_idle(record.run_id)
        return {record.run_id}

    def _take_event(self, event: Manifest) -> set[str]:
        subject = event.get("involvedObject") or {}
        if subject.get("kind") not in events.KINDS:
            return set()
        name = str(subject.get("name"))
        fold = self._folds.pop(name, None) or EventFold()
        if not fold.add(event):
            return set()
        self._folds[name] = fold  # the newest at the end
        while len(self._folds) > _MAX_FOLDS:
            self._folds.popitem(last=False)
        return {self._owners[name]} if name in self._owners else set()

    def _forget(self, kind: str, name: str) -> set[str]:
        self._names.get(kind, set()).discard(name)
        if kind == "Workload":
            workload = self._workloads.pop(name, None)
            for owner in workload.owners if workload is not None else ():
                self._workload_of.pop(owner, None)
            return set()
        run_id = self._owners.get(name)
        run = self._runs.get(run_id or "")
        if run is None or run_id is None:
            return set()
        if kind == "Pod" and name in run.pods:
            run.pods[name] = replace(run.pods[name], gone_at=self._clock())
        elif kind == "Job":
            run.jobs.pop(name, None)
        elif kind == "JobSet":
            run.job_sets.pop(name, None)
        elif kind == "ConfigMap":
            run.record = None
        self._drop_if_idle(run_id)
        return {run_id}

    def _drop_if_idle(self, run_id: str) -> None:
        """Drop what is remembered of a run that is over, some time after nothing of it is left."""
        run = self._runs[run_id]
        if not run.is_idle:
            return
        left = max((pod.gone_at or 0.0 for pod in run.pods.values()), default=0.0)
        if self._clock() - left < KEEP_S:
            self._leaving[run_id] = left + KEEP_S
            return
        for name in run.names:
            self._owners.pop(name, None)
            self._folds.pop(name, None)
        del self._runs[run_id]
        if run.record is not None:
            self._owned(run_id, record_name(run_id)).record = run.record

    def _drop_what_left(self) -> None:
        now = self._clock()
        for run_id in [one for one, until in self._leaving.items() if until <= now]:
            del self._leaving[run_id]
            if run_id in self._runs:
                self._drop_if_idle(run_id)

    def _pods(self, run: _Run, attempt: int) -> tuple[PodFact, ...]:
        """Return the newest pod of each place: one made again takes the place of one that went."""
        newest: dict[str, PodFact] = {}
        for pod in run.pods.values():
            if pod.attempt != attempt:
                continue
            before = newest.get(pod.key)
            if before is None or (pod.created or 0.0) >= (before.created or 0.0):
                newest[pod.key] = pod
        return tuple(self._pulling(pod) for pod in newest.values())

    def _pulling(self, pod: PodFact) -> PodFact:
        fold = self._folds.get(pod.name)
        return pod if fold is None else replace(pod, pull=fold.pull(), trouble=fold.trouble)

    def _troubled(self, job: JobFact) -> JobFact:
        fold = self._folds.get(job.name)
        return job if fold is None else replace(job, trouble=fold.trouble)

    def _workload(
        self, run_id: str, attempt: int, jobs: tuple[JobFact, ...]
    ) -> WorkloadFact | None:
        owners = (workload_name(run_id, attempt), *sorted(job.name for job in jobs))
        names = (self._workload_of.get(owner) for owner in owners)
        return next((self._workloads[name] for name in names if name is not None), None)

    def _gone_since(self, run: _Run, attempt: int, *, is_there: bool) -> float | None:
        if is_there:
            run.gone_since.pop(attempt, None)
            return None
        state = run.record.state if run.record is not None else RunState.QUEUED
        if attempt not in run.had_jobs and state is RunState.QUEUED:
            return None  # `pulumi up` has not made them yet
        return run.gone_since.setdefault(attempt, self._clock())

    def _owned(self, run_id: str, name: str) -> _Run:
        """Return a run, with one more object that is known to be its own."""
        run = self._runs.setdefault(run_id, _Run())
        run.names.add(name)
        self._owners[name] = run_id
        return run


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name", ""))
