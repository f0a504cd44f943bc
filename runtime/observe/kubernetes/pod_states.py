"""Where a component's pod is, in one word and in some more, for people. Pure."""

from runtime.observe.kubernetes.container_causes import pull_trouble
from runtime.observe.kubernetes.facts import PodFact


def pod_state(pod: PodFact | None) -> str:
    """Return one word: not started, pending, pulling, creating, running, or how it ended."""
    if pod is None:
        return "not started"
    main = pod.main
    if main.end is not None:
        return main.end.outcome
    if pod.gone_at is not None:
        return "deleted"
    if main.state == "terminated":
        return "completed" if main.exit_code == 0 else "failed"
    if pod.phase == "Failed":
        return "failed"
    if pod.not_ready_since is not None or pod.reason == "NodeLost":
        return "lost"
    if main.state == "running":
        return "running"
    if not pod.is_scheduled:
        return "pending"
    return "pulling" if pod.pull.is_pulling or pull_trouble(pod) else "creating"


def pod_words(pod: PodFact | None) -> str:
    """Return what there is to say about that state, empty where the word says it all."""
    if pod is None:
        return ""
    main = pod.main
    if main.end is not None:
        return main.end.reason
    if pod.disruption is not None:
        return f"{pod.disruption.reason}: {pod.disruption.message}"
    if main.state == "terminated":
        return main.reason if main.reason not in {"Completed", "Error"} else ""
    if not pod.is_scheduled:
        return pod.schedule_message
    if main.state == "running":
        return ""
    return pull_trouble(pod) or pod.trouble or pod.message
