"""Events of pods and Jobs, folded into what matters of them: pulls, failed pulls, trouble. Pure.

Kubernetes repeats and forgets events (after an hour by default), so only the times and the last
words are kept. A pod's own status does not tell a pull that goes on from a container that is being
created; its events do.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.observe.kubernetes.facts import PullFact
from runtime.observe.kubernetes.objects import plain_text, unix_time

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects

KINDS = frozenset({"Pod", "Job", "JobSet"})
"""Kinds of objects whose events are folded."""

_IMAGE = re.compile(r'image "([^"]+)"')
_TROUBLE = {
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "FailedCreate",
    "JobCreationFailed",
    "NetworkNotReady",
}
_NEW_FAILURE_S = 400.0
"""A failed pull so long after the last one is a new trouble: kubelet backs off 300 s at most."""


@dataclass(slots=True)
class EventFold:
    """What the events of one object have said so far; times are Unix times in seconds."""

    pulling: dict[str, float] = field(default_factory=dict)
    pulled: dict[str, float] = field(default_factory=dict)
    failing_since: float | None = None
    failed_at: float | None = None
    failed_message: str = ""
    trouble: str = ""

    def add(self, event: Manifest) -> bool:
        """Take in an event; tell whether it changed anything."""
        reason, message = str(event.get("reason") or ""), plain_text(event.get("message"))
        first, last = _times(event)
        found = _IMAGE.search(message)
        image = found[1] if found else ""
        if reason == "Pulling":
            self.pulling[image] = max(last, self.pulling.get(image, 0.0))
        elif reason == "Pulled":
            self.pulled[image] = max(last, self.pulled.get(image, 0.0))
            self.failing_since = None
        elif reason == "Failed" and message.startswith("Failed to pull image"):
            self._fail(first, last, message)
        elif reason in _TROUBLE:
            self.trouble = message
        else:
            return False
        return True

    def pull(self) -> PullFact:
        """Return the fact of the pod's pulls."""
        open_pulls = [
            image for image, time in self.pulling.items() if time > self.pulled.get(image, 0.0)
        ]
        last = max(open_pulls, key=lambda image: self.pulling[image], default=None)
        has_failed = last is not None and (self.failed_at or 0.0) >= self.pulling[last]
        return PullFact(
            is_pulling=last is not None and not has_failed,
            image=last or "",
            failing_since=self.failing_since,
            message=self.failed_message if self.failing_since is not None else "",
        )

    def _fail(self, first: float, last: float, message: str) -> None:
        is_new = self.failed_at is not None and last - self.failed_at > _NEW_FAILURE_S
        before = None if is_new else self.failing_since
        self.failing_since = min(last if is_new else first, before or last)
        self.failed_at = max(last, self.failed_at or 0.0)
        self.failed_message = message


def _times(event: Manifest) -> tuple[float, float]:
    """Return when an event came first and last."""
    made = event.get("eventTime") or (event.get("metadata") or {}).get("creationTimestamp")
    first = unix_time(event.get("firstTimestamp")) or unix_time(made) or 0.0
    series = event.get("series") or {}
    last = unix_time(event.get("lastTimestamp")) or unix_time(series.get("lastObservedTime"))
    return first, max(first, last or 0.0)
