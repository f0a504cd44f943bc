"""Why a pod's container failed or cannot start, in its wrapper's words or in kubelet's. Pure.

Times are kubelet's; `now` is the observer's, and both are Unix times in seconds.
"""

import re

from runtime import naming, pod_layout
from runtime.observe.kubernetes.cause import Cause
from runtime.observe.kubernetes.facts import ContainerFact, PodFact
from runtime.observe.kubernetes.launched import LaunchedPod

PULL_PATIENCE_S = 200.0
"""How long pulls of an image may fail, back-offs included: a registry's outage may pass."""

NO_IMAGE_PATIENCE_S = 30.0
"""The same where the registry says that there is no such image, or not for these credentials."""

START_PATIENCE_S = 200.0
"""How long kubelet may fail to create a container for another reason."""

_PULL_REASONS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"}
_START_REASONS = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
    "PreCreateHookError",
}
_NO_IMAGE = re.compile(
    r"not found|manifest unknown|NAME_UNKNOWN|no such image|unauthorized|denied|forbidden"
    r"|authentication required",
    re.IGNORECASE,
)
_KILLED = {
    130: "SIGINT",
    134: "SIGABRT",
    135: "SIGBUS",
    137: "SIGKILL",
    139: "SIGSEGV",
    143: "SIGTERM",
}
"""Signals by the exit code that a container ends with for them."""

_ENDED_BY_DELETION = {137, 143}


def init_cause(pod: PodFact, launched: LaunchedPod, now: float) -> Cause | None:
    """Return the cause of an init container that failed: the component never started."""
    for one in pod.containers:
        if not one.is_init or one.state != "terminated" or one.exit_code == 0:
            continue
        if one.end is not None and one.end.outcome == "ended":
            return None
        if pod.deletion_asked is not None and one.exit_code in _ENDED_BY_DELETION:
            return None
        what = "could not be prepared"
        if one.name == pod_layout.PACKAGES:
            what = "could not install its environment packages"
        how = one.end.reason if one.end and one.end.reason else _how(one)
        return _cause(one, pod, launched, now=now, words=f"{what}: {how}")
    return None


def main_cause(pod: PodFact, launched: LaunchedPod, now: float) -> Cause | None:
    """Return the cause of a component that failed; None for one that was ended or completed."""
    main = pod.main
    if main.state != "terminated":
        return None
    if main.reason == "OOMKilled":
        limit = f" of {main.memory_limit}" if main.memory_limit else ""
        words = f"was OOMKilled: it went over its memory limit{limit}"
    elif main.end is not None:
        if main.end.outcome != "failed":
            return None
        words = main.end.reason or _how(main)
    elif pod.deletion_asked is not None and main.exit_code in _ENDED_BY_DELETION:
        return None  # its grace was over before its wrapper could say so
    elif main.exit_code != 0:
        words = _how(main)
    elif launched.role in {naming.ORCHESTRATOR, naming.TRAINER}:
        return None
    else:
        words = "exited with code 0 while the run was live"
    return _cause(main, pod, launched, now=now, words=words)


def start_cause(pod: PodFact, launched: LaunchedPod, now: float) -> Cause | None:
    """Return the cause of a container that kubelet cannot start, once its patience is over."""
    for one in pod.containers:
        stuck = _stuck(one, pod) if one.state == "waiting" else None
        if stuck is None:
            continue
        patience, words = stuck
        since = pod.pull.failing_since or pod.created or now
        if patience and now - since < patience:  # clocks differ: what is final needs none
            return None
        return Cause(time=since, launched=launched, words=words, pod=pod, container=one.name)
    return None


def pull_trouble(pod: PodFact) -> str:
    """Return what kubelet says of an image that it fails to pull, empty where it does not."""
    for one in pod.containers:
        if one.state == "waiting" and one.reason in _PULL_REASONS:
            return f"{one.image} ({one.reason}): {pod.pull.message or one.message}"
    return ""


def _stuck(one: ContainerFact, pod: PodFact) -> tuple[float, str] | None:
    """Return (patience in seconds, words) for a container that kubelet fails to start."""
    if one.reason == "InvalidImageName":
        return 0.0, f"cannot have the image {one.image} (InvalidImageName): {one.message}"
    if one.reason in _PULL_REASONS:
        is_none = _NO_IMAGE.search(f"{one.message} {pod.pull.message}")
        patience = NO_IMAGE_PATIENCE_S if is_none else PULL_PATIENCE_S
        return patience, f"cannot pull the image {pull_trouble(pod)}"
    if one.reason in _START_REASONS:
        return START_PATIENCE_S, f"cannot be created ({one.reason}): {one.message}"
    return None


def _cause(
    one: ContainerFact, pod: PodFact, launched: LaunchedPod, *, now: float, words: str
) -> Cause:
    return Cause(
        time=one.finished or now,
        launched=launched,
        words=words,
        pod=pod,
        container=one.name,
        exit_code=one.end.exit_code if one.end else one.exit_code,
        signal=one.end.signal if one.end else _KILLED.get(one.exit_code or 0),
    )


def _how(one: ContainerFact) -> str:
    detail = f": {one.message}" if one.message and one.end is None else ""
    signal = _KILLED.get(one.exit_code or 0)
    if signal is not None:
        return f"was killed by {signal} (exit code {one.exit_code}){detail}"
    why = f" ({one.reason})" if one.reason not in {"Error", "Completed", ""} else ""
    return f"exited with code {one.exit_code}{why}{detail}"
