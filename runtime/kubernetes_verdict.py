"""How a run on Kubernetes ended by itself, asked once, before its pods are deleted.

A teardown keeps COMPLETED or FAILED of a run that nobody watched; everything else it ends is
STOPPED. The judgement is `runtime.observe.kubernetes.judge`'s; a watch is not worth its start here.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from runtime import limits, naming, pod_layout
from runtime.kubernetes_api import ForbiddenError, KubernetesApi, KubernetesError, UnreachableError
from runtime.observe.kubernetes.index import RunIndex
from runtime.observe.kubernetes.judge import PodTransition, judge_pods, needs_last_step
from runtime.observe.kubernetes.launched import LaunchedRun, launched_run
from runtime.observe.kubernetes.logs import ClusterLogs, LogPlace
from runtime.observe.kubernetes.run_files import (
    METRICS,
    FilesUnavailableError,
    RunFiles,
    log_path,
)
from runtime.pod_names import config_map_name
from runtime.progress import last_step_in
from runtime.run_record import ExitDetails, RunRecord
from runtime.states import RunState, is_terminal

_KINDS = ("Job", "JobSet", "Pod")


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A terminal state that the run came to by itself."""

    state: RunState
    reason: str
    exit_details: ExitDetails | None = None


def read_verdict(api: KubernetesApi, record: RunRecord) -> Verdict | None:
    """Return how the record's attempt ended, None where it was still live or nobody can tell.

    Raises UnreachableError only: whatever else cannot be read costs the verdict, not the teardown.
    """
    try:
        return _read(api, record)
    except UnreachableError:
        raise
    except KubernetesError:
        return None


def _read(api: KubernetesApi, record: RunRecord) -> Verdict | None:
    launched = _launched(api, record)
    index = RunIndex(time.time)
    for kind in _KINDS:
        with _absent():
            index.take_list(kind, api.list(kind, labels={naming.LABEL_RUN: record.run_id}))
    facts = index.facts(record.run_id, record.attempt)
    files = RunFiles(api)
    if needs_last_step(facts, launched):
        try:
            piece = files.tail(record.run_id, METRICS, num_lines=200)
        except FilesUnavailableError:
            return None
        step = last_step_in(piece.data.splitlines()) if piece is not None else None
        facts = replace(facts, last_step=step)
    found = judge_pods(facts, record, launched)
    if found is None or not is_terminal(found.state) or not _is_own(found):
        return None
    logs = ClusterLogs(api, files, lambda _line: None)
    details = _exit_details(logs, record, found) if found.component else None
    return Verdict(state=found.state, reason=found.reason, exit_details=details)


def _is_own(found: PodTransition) -> bool:
    """Tell whether a component failed: Jobs that are missing are what a destroy began with."""
    return found.state is RunState.COMPLETED or bool(found.pod)


@contextlib.contextmanager
def _absent() -> Iterator[None]:
    """Let a kind be absent that the cluster does not serve, or does not let the caller see."""
    try:
        yield
    except ForbiddenError:
        return
    except KubernetesError as error:
        if error.status != 404:
            raise


def _launched(api: KubernetesApi, record: RunRecord) -> LaunchedRun:
    config_map = api.get("ConfigMap", config_map_name(record.run_id, record.attempt))
    found = launched_run(config_map) if config_map is not None else None
    return found or LaunchedRun(run_id=record.run_id, attempt=record.attempt)


def _exit_details(logs: ClusterLogs, record: RunRecord, found: PodTransition) -> ExitDetails:
    is_main = bool(found.log) and found.container == pod_layout.MAIN
    path = log_path(record.attempt, found.log) if is_main else ""
    place = LogPlace(run_id=record.run_id, path=path, pod=found.pod, container=found.container)
    lines = logs.last_lines(place, limits.LAST_LOG_LINES)
    return ExitDetails(
        component=found.component,
        exit_code=found.exit_code,
        signal=found.signal,
        last_lines=tuple(line[: limits.MAX_KEPT_LINE_CHARS] for line in lines),
    )
