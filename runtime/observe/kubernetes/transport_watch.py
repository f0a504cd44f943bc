"""Watches the logs of RDMA pods until NCCL has said which network it uses; then warns or is done.

Reads the first megabytes of each log, a few times at most.
"""

import time
from dataclasses import dataclass, field

from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.observe.kubernetes.facts import PodFact, RunFacts
from runtime.observe.kubernetes.launched import LaunchedRun
from runtime.observe.kubernetes.logs import split_lines
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles, log_path
from runtime.observe.kubernetes.transport import degraded_warning, transport_of

_EVERY_S = 30.0
_MAX_LOOKS = 40
_MAX_PIECES = 4
"""Megabytes from the start of a log in which NCCL's words are looked for."""


@dataclass(slots=True)
class _Looks:
    attempt: int
    next_at: float = 0.0
    number: int = 0
    done: set[str] = field(default_factory=set)


class TransportWatch:
    """Remembers for each run which pods have told their transport."""

    def __init__(self, api: KubernetesApi, files: RunFiles) -> None:
        """Read logs through these."""
        self._api = api
        self._files = files
        self._looks: dict[str, _Looks] = {}

    def look(self, facts: RunFacts, launched: LaunchedRun) -> list[str]:
        """Return the warnings about pods whose transport is degraded; empty while nobody knows."""
        pods = [pod for pod in facts.pods if pod.rdma and pod.main.state == "running"]
        if not pods:
            return []
        looks = self._looks.get(facts.run_id)
        if looks is None or looks.attempt != facts.attempt:
            looks = self._looks[facts.run_id] = _Looks(attempt=facts.attempt)
        now = time.monotonic()
        if now < looks.next_at or looks.number >= _MAX_LOOKS:
            return []
        looks.next_at, looks.number = now + _EVERY_S, looks.number + 1
        found = []
        for pod in pods:
            if pod.key in looks.done:
                continue
            transport = transport_of(self._lines(pod, facts, launched))
            if transport is None:
                continue
            looks.done.add(pod.key)
            if transport.is_degraded:
                component = launched.pod(pod.key).component
                found.append(degraded_warning(component, transport, resource=pod.rdma))
        return found[:1]  # one is enough: the others have the same image

    def forget(self, run_id: str) -> None:
        """Forget a run that is over."""
        self._looks.pop(run_id, None)

    def _lines(self, pod: PodFact, facts: RunFacts, launched: LaunchedRun) -> list[str]:
        log = launched.pod(pod.key).log
        try:
            data = bytearray()
            for _ in range(_MAX_PIECES if log else 0):
                path = log_path(facts.attempt, log)
                piece = self._files.read(facts.run_id, path, offset=len(data))
                if piece is None or not piece.data:
                    break
                data += piece.data
            if data:
                return list(split_lines([bytes(data)]))
        except FilesUnavailableError:
            pass
        try:
            pieces = self._api.pod_log(pod.name, container="main", tail=5_000)
            return list(split_lines(pieces))
        except KubernetesError:
            return []
