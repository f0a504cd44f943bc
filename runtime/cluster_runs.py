"""ClusterRun: a run on Kubernetes as the CLI handles it: follow, stop, list and read its parts.

The counterpart of `runtime.supervisor_client` for runs whose processes are pods. Each function
opens its own connection; nothing here needs Pulumi or the run's stack.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runtime.cluster import KubernetesConnection
from runtime.errors import NotFoundError
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.kubernetes_record import ClusterRecord
from runtime.kubernetes_run import stop_workloads
from runtime.kubernetes_teardown import Owned
from runtime.observe.kubernetes.evidence import read_launched
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.observe.kubernetes.logs import ClusterLogs, LogPlace
from runtime.observe.kubernetes.look import Look
from runtime.observe.kubernetes.observer import RunObserver, RunView
from runtime.observe.kubernetes.pod_states import pod_state, pod_words
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles, log_path
from runtime.observe.kubernetes.status_files import ends_by_files, launched_by_files
from runtime.observe.kubernetes.watch import open_watch
from runtime.observe.logs import LogQuery
from runtime.pod_names import record_name
from runtime.run_record import RunRecord

Say = Callable[[str], None]

_VIEW_S = 2.0
_NO_RECORD_S = 10.0
_OVER_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRun:
    """A run of a cluster's namespace, at its newest attempt."""

    connection: KubernetesConnection
    run_id: str
    attempt: int


def find_run(connection: KubernetesConnection, run_id: str) -> ClusterRun | None:
    """Return a run by its record, None where the namespace has none of it."""
    with open_api(connection) as api:
        record = ClusterRecord(api, run_id).read()
    if record is None:
        return None
    return ClusterRun(connection=connection, run_id=run_id, attempt=record.attempt)


@contextlib.contextmanager
def open_api(connection: KubernetesConnection) -> Iterator[KubernetesApi]:
    """Yield the API of a cluster and close it."""
    with contextlib.closing(KubernetesApi.connect(connection)) as api:
        yield api


def read_cluster_record(run: ClusterRun) -> RunRecord:
    """Return the record of a run; raises NotFoundError where somebody removed it."""
    with open_api(run.connection) as api:
        return _record(api, run.run_id)


def settle_cluster_run(run: ClusterRun) -> RunRecord:
    """Return the record as `settle_with` does."""
    with open_api(run.connection) as api:
        return settle_with(api, run.run_id)


def watch_cluster_run(run: ClusterRun) -> Iterator[tuple[RunView, RunFiles]]:
    """Yield the view of a run after each change and every two seconds, until it is over.

    An API server that is away for a while is waited for; the view says since when. Raises
    NotFoundError where there is no record.
    """
    with open_api(run.connection) as api, open_watch(api, run_id=run.run_id) as watch:
        files = RunFiles(api)
        observer = RunObserver(api, watch, files)
        missing_since: float | None = None
        while True:
            watch.changes(_VIEW_S)
            if not watch.is_current and watch.unreachable_since is None:
                continue  # not everything is listed yet
            view = observer.settle(run.run_id)
            if view is None:
                missing_since = missing_since or time.monotonic()
                if watch.is_current and time.monotonic() - missing_since > _NO_RECORD_S:
                    raise _no_record(api, run.run_id)
                continue
            yield view, files
            if view.record.is_over:
                return


def stop_cluster_run(run: ClusterRun, *, reason: str) -> RunRecord:
    """End a run's Jobs and pods; STOPPED is written once a read has shown that none is left.

    A run that had ended by itself keeps its own end. Raises TeardownStuckError.
    """
    with open_api(run.connection) as api:
        owned = Owned(run_id=run.run_id, up_to_attempt=run.attempt)
        stop_workloads(api, owned, run.attempt, reason=reason)
        return _record(api, run.run_id)


def component_rows(run: ClusterRun) -> tuple[list[dict[str, Any]], RunRecord]:
    """Return a row for each component of the newest attempt, and the run's record."""
    with open_api(run.connection) as api:
        look = Look(api, run.run_id)
        record = look.record(run.run_id) or _record(api, run.run_id)
        files = RunFiles(api)
        launched = _launched(api, files, run, record.attempt)
        pods = {pod.key: pod for pod in look.facts(run.run_id, record.attempt).pods}
        ends = {}
        if any(one.key not in pods for one in launched.pods):
            with contextlib.suppress(FilesUnavailableError):
                ends = ends_by_files(files, run.run_id, record.attempt)
        rows = []
        for one in launched.pods:
            pod = pods.get(one.key)
            state, words = pod_state(pod), pod_words(pod)
            if pod is None and one.component in ends:
                state, words = ends[one.component]
            rows.append(
                {
                    "name": one.component,
                    "role": one.role,
                    "source": one.source,
                    "gpus": pod.num_gpus if pod is not None else None,
                    "state": state,
                    "pod": pod.name if pod is not None else None,
                    "node": pod.node or None if pod is not None else None,
                    "detail": words,
                    "log": log_path(record.attempt, one.log),
                }
            )
        return rows, record


class ClusterRunLogs:
    """The logs of one run: what there is, where it is, and its lines."""

    def __init__(self, api: KubernetesApi, run: ClusterRun, say: Say) -> None:
        """Read through this API; `say` gets a line where it stands in for the file server."""
        self._api = api
        self._run = run
        self._files = RunFiles(api)
        self._logs = ClusterLogs(api, self._files, say)
        self._over_at = 0.0

    def launched(self, attempt: int) -> LaunchedRun:
        """Return what an attempt was launched with."""
        return _launched(self._api, self._files, self._run, attempt)

    def lines(
        self, attempt: int, launched: LaunchedPod, query: LogQuery, *, is_followed: bool
    ) -> Iterator[str]:
        """Yield the wanted lines of a component's log; a followed one ends with the run."""
        place = LogPlace(
            run_id=self._run.run_id,
            path=log_path(attempt, launched.log),
            pod=self._pod(attempt, launched.key),
        )
        if is_followed:
            return self._logs.follow(place, query, is_over=self._is_over)
        return iter(self._logs.read(place, query))

    def _pod(self, attempt: int, key: str) -> str:
        """Return the pod of a place, empty where the API has none or cannot be asked."""
        try:
            pods = Look(self._api, self._run.run_id).facts(self._run.run_id, attempt).pods
        except KubernetesError:
            return ""
        return next((pod.name for pod in pods if key and pod.key == key), "")

    def _is_over(self) -> bool:
        """Ask now and then whether the run is over; an API that is away says neither."""
        if time.monotonic() < self._over_at:
            return False
        self._over_at = time.monotonic() + _OVER_S
        with contextlib.suppress(KubernetesError):
            return settle_with(self._api, self._run.run_id).is_over
        return False


@contextlib.contextmanager
def open_logs(run: ClusterRun, say: Say) -> Iterator[ClusterRunLogs]:
    """Yield the logs of a run."""
    with open_api(run.connection) as api:
        yield ClusterRunLogs(api, run, say)


def settle_with(api: KubernetesApi, run_id: str) -> RunRecord:
    """Return the record, after writing what follows from what the cluster shows right now."""
    view = RunObserver(api, Look(api, run_id), RunFiles(api)).settle(run_id)
    return view.record if view is not None else _record(api, run_id)


def _launched(api: KubernetesApi, files: RunFiles, run: ClusterRun, attempt: int) -> LaunchedRun:
    """Return what an attempt was launched with; after a destroy its run directory tells it."""
    found = read_launched(api, run.run_id, attempt)
    return found or launched_by_files(files, run.run_id, attempt)


def _record(api: KubernetesApi, run_id: str) -> RunRecord:
    record = ClusterRecord(api, run_id).read()
    if record is None:
        raise _no_record(api, run_id)
    return record


def _no_record(api: KubernetesApi, run_id: str) -> NotFoundError:
    return NotFoundError(
        f"{run_id}: no record, ConfigMap {record_name(run_id)} in namespace {api.namespace} is "
        f"missing: `pulumi up -s {run_id}` starts the run"
    )
