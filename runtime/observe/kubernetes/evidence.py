"""What a verdict needs beside the API's objects: the launched run, its last step, its last words.

Read when a verdict hangs on it, and once an end is written. What cannot be read is left out: no
evidence is worth a run whose end nobody writes.
"""

from dataclasses import replace

from runtime import limits, pod_layout
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.judge import PodTransition, needs_last_step
from runtime.observe.kubernetes.launched import LaunchedRun, launched_run
from runtime.observe.kubernetes.logs import ClusterLogs, LogPlace
from runtime.observe.kubernetes.run_files import METRICS, FilesUnavailableError, RunFiles, log_path
from runtime.pod_names import config_map_name
from runtime.progress import last_step_in
from runtime.run_record import ExitDetails

_STEP_LINES = 200
_STEP_PATIENCE_S = 60.0
"""How long a verdict that hangs on the last step waits for a file server that does not answer."""


def read_launched(api: KubernetesApi, run_id: str, attempt: int) -> LaunchedRun | None:
    """Return what an attempt was launched with, None where its ConfigMap is gone or unreadable."""
    try:
        config_map = api.get("ConfigMap", config_map_name(run_id, attempt))
    except KubernetesError:
        return None
    return launched_run(config_map) if config_map is not None else None


def with_last_step(facts: RunFacts, launched: LaunchedRun, files: RunFiles) -> RunFacts:
    """Return the facts with the run's last step, where the verdict hangs on it."""
    if not needs_last_step(facts, launched):
        return facts
    try:
        piece = files.tail(facts.run_id, METRICS, num_lines=_STEP_LINES)
    except FilesUnavailableError:
        return replace(facts, is_step_unknown=_has_just_ended(facts))
    step = last_step_in(piece.data.splitlines()) if piece is not None else None
    return replace(facts, last_step=step)


def exit_details(
    transition: PodTransition, facts: RunFacts, logs: ClusterLogs
) -> ExitDetails | None:
    """Return the end of the component that a failure is named after, with its last words."""
    if not transition.component:
        return None
    is_main = bool(transition.log) and transition.container == pod_layout.MAIN
    place = LogPlace(
        run_id=facts.run_id,
        path=log_path(facts.attempt, transition.log) if is_main else "",
        pod=transition.pod,
        container=transition.container,
    )
    lines = logs.last_lines(place, limits.LAST_LOG_LINES)
    return ExitDetails(
        component=transition.component,
        exit_code=transition.exit_code,
        signal=transition.signal,
        last_lines=tuple(line[: limits.MAX_KEPT_LINE_CHARS] for line in lines),
    )


def _has_just_ended(facts: RunFacts) -> bool:
    ends = [pod.main.finished for pod in facts.pods if pod.main.finished is not None]
    return facts.time - min(ends, default=facts.time) < _STEP_PATIENCE_S
