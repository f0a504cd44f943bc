"""What the facts of a run on Kubernetes mean for its state: the transition that follows. Pure.

Called by whoever observes: `paddock wait`, `paddock reconcile`, a destroy. The facts come from
`runtime.observe.kubernetes.watch`; the transition is written with a compare-and-set, so several
observers do no harm.
"""

from dataclasses import dataclass

from runtime import naming, pod_layout
from runtime.observe.judge import QUIET_TRAINER_S
from runtime.observe.kubernetes.cause import Cause
from runtime.observe.kubernetes.causes import find_causes
from runtime.observe.kubernetes.facts import PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedRun
from runtime.observe.kubernetes.progress import progress_of
from runtime.record import RunRecord
from runtime.states import RunState, may_follow

WORKLOADS_GONE_S = 120.0
"""How long a live run may be without its Jobs: a destroy deletes them before it writes the end."""

_MAX_REASON = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PodTransition:
    """A state that follows, why, and the pod that a failure is named after.

    `is_preempted` asks for QUEUED as a new attempt; `log` lies below the attempt's log folder.
    """

    state: RunState
    reason: str = ""
    is_preempted: bool = False
    component: str = ""
    pod: str = ""
    container: str = pod_layout.MAIN
    log: str = ""
    exit_code: int | None = None
    signal: str | None = None


def judge_pods(facts: RunFacts, record: RunRecord, run: LaunchedRun) -> PodTransition | None:
    """Return the transition that the facts call for, None while nothing changes."""
    if record.is_over or facts.attempt != record.attempt:
        return None
    found = (
        _queue_verdict(facts)
        or _failure(facts, run)
        or _completion(facts, run)
        or _quiet_trainer(facts, run)
        or _vanished(facts)
        or _progress(facts, run)
    )
    if found is None or not (found.is_preempted or may_follow(record.state, found.state)):
        return None
    return found


def needs_last_step(facts: RunFacts, run: LaunchedRun) -> bool:
    """Tell whether the verdict hangs on the last step of the metrics file."""
    orchestrator = _of_role(facts, run, naming.ORCHESTRATOR)
    if any(_is_completed(pod) and not _has_end_mark(pod) for pod in orchestrator):
        return True
    trainers = _of_role(facts, run, naming.TRAINER)
    return any(_is_completed(pod) for pod in trainers) and not any(
        _is_completed(pod) for pod in orchestrator
    )


def _queue_verdict(facts: RunFacts) -> PodTransition | None:
    workload = facts.workload
    if workload is None:
        return None
    words = f"Kueue: {workload.reason}: {workload.message}".rstrip(": ")
    if workload.state in {"never", "deactivated"}:
        return PodTransition(state=RunState.FAILED, reason=words[:_MAX_REASON])
    if workload.state == "evicted":
        reason = f"preempted ({workload.reason}): {workload.message}".rstrip(": ")
        return PodTransition(state=RunState.QUEUED, reason=reason[:_MAX_REASON], is_preempted=True)
    return None


def _failure(facts: RunFacts, run: LaunchedRun) -> PodTransition | None:
    is_finishing = any(_is_completed(one) for one in _of_role(facts, run, naming.ORCHESTRATOR))
    for cause in find_causes(facts, run):
        # a server may stumble over the end of its only client
        if is_finishing and cause.launched.role not in {naming.ORCHESTRATOR, naming.TRAINER}:
            continue
        return _failed(cause)
    return None


def _failed(cause: Cause) -> PodTransition:
    return PodTransition(
        state=RunState.FAILED,
        reason=cause.text()[:_MAX_REASON],
        component=cause.launched.component,
        pod=cause.pod.name if cause.pod else "",
        container=cause.container,
        log=cause.launched.log,
        exit_code=cause.exit_code,
        signal=cause.signal,
    )


def _completion(facts: RunFacts, run: LaunchedRun) -> PodTransition | None:
    for pod in _of_role(facts, run, naming.ORCHESTRATOR):
        if not _is_completed(pod):
            return None
        if not _has_end_mark(pod) and not _all_steps_done(facts, run):
            if facts.is_step_unknown:
                return None
            how = pod.main.end.reason if pod.main.end else ""
            words = (
                f"{how or 'exited with code 0'}, at {_at_step(facts, run)} and without its end mark"
            )
            return _failed(_ended(pod, run, facts.time, words))
    trainers = _of_role(facts, run, naming.TRAINER)
    if not _of_role(facts, run, naming.ORCHESTRATOR) or not trainers:
        return None
    for pod in trainers:
        end = pod.main.end
        if end is not None and end.outcome == "ended":
            words = (
                f"did not end by itself after the orchestrator, all of whose steps are done "
                f"({end.reason}): its last checkpoint may be missing"
            )
            return _failed(_ended(pod, run, facts.time, words))
        if not _is_completed(pod):
            return None
    planned = [one for one in run.pods if one.role == naming.TRAINER]
    return PodTransition(state=RunState.COMPLETED) if len(trainers) >= len(planned) else None


def _quiet_trainer(facts: RunFacts, run: LaunchedRun) -> PodTransition | None:
    """Return the failure of a trainer that ended too early, for which all others would wait."""
    if facts.last_step is None or run.max_steps is None or facts.last_step >= run.max_steps:
        return None
    for pod in _of_role(facts, run, naming.TRAINER):
        finished = pod.main.finished
        if not _is_completed(pod) or finished is None or facts.time - finished <= QUIET_TRAINER_S:
            continue
        words = f"exited with code 0, at {_at_step(facts, run)}"
        return _failed(_ended(pod, run, facts.time, words))
    return None


def _vanished(facts: RunFacts) -> PodTransition | None:
    since = facts.workloads_gone_since
    if since is None or facts.time - since < WORKLOADS_GONE_S:
        return None
    return PodTransition(
        state=RunState.FAILED,
        reason="its Jobs were deleted, and not by paddock",
    )


def _progress(facts: RunFacts, run: LaunchedRun) -> PodTransition | None:
    found = progress_of(facts, run)
    return None if found is None else PodTransition(state=found[0], reason=found[1][:_MAX_REASON])


def _ended(pod: PodFact, run: LaunchedRun, now: float, words: str) -> Cause:
    return Cause(
        time=now,
        launched=run.pod(pod.key),
        words=words,
        pod=pod,
        exit_code=pod.main.end.exit_code if pod.main.end else pod.main.exit_code,
    )


def _of_role(facts: RunFacts, run: LaunchedRun, role: str) -> list[PodFact]:
    return [pod for pod in facts.pods if run.pod(pod.key).role == role]


def _is_completed(pod: PodFact) -> bool:
    main = pod.main
    if main.state != "terminated":
        return False
    return main.end.outcome == "completed" if main.end is not None else main.exit_code == 0


def _has_end_mark(pod: PodFact) -> bool:
    return pod.main.end is not None and pod.main.end.end_mark


def _all_steps_done(facts: RunFacts, run: LaunchedRun) -> bool:
    if run.max_steps is None or facts.last_step is None:
        return False
    return facts.last_step >= run.max_steps


def _at_step(facts: RunFacts, run: LaunchedRun) -> str:
    done = "no known step" if facts.last_step is None else f"step {facts.last_step}"
    return done if run.max_steps is None else f"{done} of {run.max_steps}"
