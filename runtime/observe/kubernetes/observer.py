"""RunObserver: judges runs by what a watch shows of them, and writes what follows.

Several observers of one run do no harm: every write is a compare-and-set on the record. Called by
`paddock wait` for one run and by `paddock reconcile` for all of a namespace.
"""

import threading
import time
from dataclasses import dataclass
from typing import Protocol

from runtime.errors import RunStateError
from runtime.kubernetes_api import KubernetesApi, UnreachableError
from runtime.kubernetes_record import ClusterRecord
from runtime.observe.kubernetes.evidence import exit_details, read_launched, with_last_step
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.judge import judge_pods
from runtime.observe.kubernetes.launched import LaunchedRun
from runtime.observe.kubernetes.logs import ClusterLogs
from runtime.observe.kubernetes.progress import progress_of
from runtime.observe.kubernetes.release import release_stragglers
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.kubernetes.transport_watch import TransportWatch
from runtime.run_record import RunRecord
from runtime.states import RunState

LOOK_S = 5.0
"""How often rules that wait for a time are looked at again."""

_REASON_S = 10.0
"""How often at most the words that a state waits for are written again."""


class Sight(Protocol):
    """What an observer looks through: a watch, or what was listed once."""

    @property
    def is_current(self) -> bool:
        """Tell whether everything was listed and the API answers."""
        ...

    @property
    def unreachable_since(self) -> float | None:
        """Return since when the API does not answer."""
        ...

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        """Return what is seen of one attempt of a run."""
        ...

    def record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run as last seen."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """A run as an observer sees it: the record, what it waits for, and since when it is blind."""

    record: RunRecord
    facts: RunFacts
    launched: LaunchedRun
    waits_for: str = ""
    unreachable_since: float | None = None


class RunObserver:
    """Observes the runs in sight; may be used from several threads, one run in one of them."""

    def __init__(self, api: KubernetesApi, sight: Sight, files: RunFiles) -> None:
        """Observe through these."""
        self._api = api
        self._sight = sight
        self._files = files
        self._logs = ClusterLogs(api, files, lambda _: None)
        self._transports = TransportWatch(api, files)
        self._launched: dict[str, LaunchedRun] = {}
        self._reasons: dict[str, float] = {}
        self._lock = threading.Lock()

    def settle(self, run_id: str) -> RunView | None:
        """Write what follows from what is seen of a run; return the view, None without a record.

        Writes nothing while the sight is not current: what it lacks would look like deleted.
        """
        record = self._sight.record(run_id)
        if record is None:
            return None
        facts = self._sight.facts(run_id, record.attempt)
        launched = self.launched(run_id, record.attempt)
        if not self._sight.is_current:
            return self._view(record, facts, launched)
        try:
            if record.is_over:
                release_stragglers(self._api, facts, ended=record.times[-1].time.timestamp())
                self._forget(run_id)
                return self._view(record, facts, launched)
            facts = with_last_step(facts, launched, self._files)
            record = self._write(facts, record, launched)
            record = self._warn(facts, record, launched)
        except UnreachableError:
            pass  # the watch says so; the next look writes it
        return self._view(record, facts, launched)

    def launched(self, run_id: str, attempt: int) -> LaunchedRun:
        """Return what an attempt was launched with; only its id where its ConfigMap is gone."""
        with self._lock:
            known = self._launched.get(run_id)
        if known is not None and known.attempt == attempt:
            return known
        found = read_launched(self._api, run_id, attempt)
        if found is None:
            return LaunchedRun(run_id=run_id, attempt=attempt)
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
            unreachable_since=self._sight.unreachable_since,
        )

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
                    exit_details=exit_details(transition, facts, self._logs),
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

    def _forget(self, run_id: str) -> None:
        with self._lock:
            self._launched.pop(run_id, None)
            self._reasons.pop(run_id, None)
        self._transports.forget(run_id)
