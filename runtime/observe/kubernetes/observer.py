"""RunObserver: judges runs by what a watch shows of them, and writes what follows.

Several observers of one run do no harm: every write is a compare-and-set on the record. Called by
`paddock wait` for one run and by `paddock reconcile` for all of a namespace.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from runtime import limits
from runtime.errors import RunStateError
from runtime.kubernetes_api import KubernetesApi, KubernetesError, UnreachableError
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.judge import PodTransition, judge_pods, needs_last_step
from runtime.observe.kubernetes.launched import LaunchedRun, launched_run
from runtime.observe.kubernetes.logs import ClusterLogs, LogPlace
from runtime.observe.kubernetes.progress import progress_of
from runtime.observe.kubernetes.release import release_stragglers
from runtime.observe.kubernetes.run_files import (
    METRICS,
    FilesUnavailableError,
    RunFiles,
    log_path,
)
from runtime.observe.kubernetes.transport_watch import TransportWatch
from runtime.observe.kubernetes.watch import RunWatch
from runtime.pod_names import config_map_name
from runtime.progress import last_step_in
from runtime.run_record import ExitDetails, RunRecord
from runtime.states import RunState

LOOK_S = 5.0
"""How often rules that wait for a time are looked at again."""

_STEP_PATIENCE_S = 60.0
"""How long a verdict that hangs on the last step waits for a file server that does not answer."""

_REASON_S = 10.0
"""How often at most the words that a state waits for are written again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """A run as an observer sees it: the record, what it waits for, and since when it is blind."""

    record: RunRecord
    facts: RunFacts
    launched: LaunchedRun
    waits_for: str = ""
    unreachable_since: float | None = None


class RunObserver:
    """Observes the runs of one watch; may be used from several threads, one run in one of them."""

    def __init__(self, api: KubernetesApi, watch: RunWatch, files: RunFiles) -> None:
        """Observe through these."""
        self._api = api
        self._watch = watch
        self._files = files
        self._logs = ClusterLogs(api, files, lambda _: None)
        self._transports = TransportWatch(api, files)
        self._launched: dict[str, LaunchedRun] = {}
        self._reasons: dict[str, float] = {}
        self._lock = threading.Lock()

    def settle(self, run_id: str) -> RunView | None:
        """Write what follows from what is seen of a run; return the view, None without a record.

        Writes nothing while the watch is not current: what it lacks would look like deleted.
        """
        record = self._watch.record(run_id)
        if record is None:
            return None
        facts = self._watch.facts(run_id, record.attempt)
        launched = self.launched(run_id, record.attempt)
        if not self._watch.is_current:
            return self._view(record, facts, launched)
        try:
            if record.is_over:
                release_stragglers(self._api, facts, ended=record.times[-1].time.timestamp())
                self._forget(run_id)
                return self._view(record, facts, launched)
            facts = self._with_last_step(facts, launched)
            record = self._write(facts, record, launched)
            record = self._warn(facts, record, launched)
        except UnreachableError:
            pass  # the watch says so; the next look writes it
        return self._view(record, facts, launched)

    def follow(self, run_id: str) -> Iterator[RunView]:
        """Yield the view of a run after each change and at least every few seconds, to its end."""
        pending = True
        while True:
            changed = self._watch.changes(LOOK_S if not pending else 0.2)
            pending = not self._watch.is_current and self._watch.unreachable_since is None
            if pending and run_id not in changed:
                continue
            view = self.settle(run_id)
            if view is None:
                continue
            yield view
            if view.record.is_over:
                return

    def launched(self, run_id: str, attempt: int) -> LaunchedRun:
        """Return what an attempt was launched with; only its id where its ConfigMap is gone."""
        with self._lock:
            known = self._launched.get(run_id)
        if known is not None and known.attempt == attempt:
            return known
        empty = LaunchedRun(run_id=run_id, attempt=attempt)
        try:
            config_map = self._api.get("ConfigMap", config_map_name(run_id, attempt))
        except KubernetesError:
            return empty
        found = launched_run(config_map) if config_map is not None else None
        if found is None:
            return empty
        with self._lock:
            self._launched[run_id] = found
        return found

    def _view(self, record: RunRecord, facts: RunFacts, launched: LaunchedRun) -> RunView:
        progress = None if record.is_over else progress_of(facts, launched)
        is_there = progress is not None and progress[0] is record.state
        return RunView(
            record=record,
            facts=facts,
            launched=launched,
            waits_for=progress[1] if progress is not None and is_there else "",
            unreachable_since=self._watch.unreachable_since,
        )

    def _with_last_step(self, facts: RunFacts, launched: LaunchedRun) -> RunFacts:
        if not needs_last_step(facts, launched):
            return facts
        try:
            piece = self._files.tail(facts.run_id, METRICS, num_lines=200)
        except FilesUnavailableError:
            return replace(facts, is_step_unknown=_is_recent(facts))
        step = last_step_in(piece.data.splitlines()) if piece is not None else None
        return replace(facts, last_step=step)

    def _write(self, facts: RunFacts, record: RunRecord, launched: LaunchedRun) -> RunRecord:
        transition = judge_pods(facts, record, launched)
        if transition is None:
            return self._write_reason(facts, record, launched)
        store = ClusterRecord(self._api, record.run_id)
        try:
            if transition.is_preempted:
                after = store.preempt(transition.reason, attempt=record.attempt)
                release_stragglers(self._api, facts, ended=None)
            else:
                after = store.advance(
                    transition.state,
                    attempt=record.attempt,
                    reason=transition.reason,
                    exit_details=self._exit(transition, facts),
                )
        except RunStateError:
            return store.read() or record  # another observer was first
        if after.is_over:
            release_stragglers(self._api, facts, ended=time.time())
        return after

    def _write_reason(self, facts: RunFacts, record: RunRecord, launched: LaunchedRun) -> RunRecord:
        """Write what the state waits for, when it has changed and was not written just now."""
        progress = progress_of(facts, launched)
        if progress is None or progress[0] is not record.state or progress[1] == record.reason:
            return record
        if record.state is RunState.RUNNING or not progress[1]:
            return record
        last = self._reasons.get(record.run_id, 0.0)
        if time.monotonic() - last < _REASON_S and record.reason:
            return record
        self._reasons[record.run_id] = time.monotonic()
        try:
            store = ClusterRecord(self._api, record.run_id)
            return store.set_reason(progress[1], attempt=record.attempt)
        except RunStateError:
            return record

    def _warn(self, facts: RunFacts, record: RunRecord, launched: LaunchedRun) -> RunRecord:
        if record.state is not RunState.RUNNING:
            return record
        for warning in self._transports.look(facts, launched):
            if warning not in record.warnings:
                try:
                    store = ClusterRecord(self._api, record.run_id)
                    record = store.add_warning(warning, attempt=record.attempt)
                except RunStateError:
                    return record
        return record

    def _exit(self, transition: PodTransition, facts: RunFacts) -> ExitDetails | None:
        if not transition.component or transition.state is not RunState.FAILED:
            return None
        path = log_path(facts.attempt, transition.log) if transition.log else ""
        place = LogPlace(
            run_id=facts.run_id,
            path=path if transition.container == "main" else "",
            pod=transition.pod,
            container=transition.container,
        )
        lines = self._logs.last_lines(place, limits.LAST_LOG_LINES)
        return ExitDetails(
            component=transition.component,
            exit_code=transition.exit_code,
            signal=transition.signal,
            last_lines=tuple(line[: limits.MAX_KEPT_LINE_CHARS] for line in lines),
        )

    def _forget(self, run_id: str) -> None:
        with self._lock:
            self._launched.pop(run_id, None)
            self._reasons.pop(run_id, None)
        self._transports.forget(run_id)


def _is_recent(facts: RunFacts) -> bool:
    ends = [pod.main.finished for pod in facts.pods if pod.main.finished is not None]
    return facts.time - min(ends, default=facts.time) < _STEP_PATIENCE_S
