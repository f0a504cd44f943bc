"""PodLogSource: the logs of an attempt's pods as files of its run directory, from the API itself.

For a run whose directory no file server shows: the server is away, or the run's volume is none that
it has. Only logs, only of the current attempt, and only as much as kubelet has kept of them.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from runtime import naming, pod_layout
from runtime.artifacts import RunDirectory
from runtime.control.run_source import Entry, SourceUnavailableError
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.observe.kubernetes.objects import pod_fact

MAX_LOG_BYTES = 64 << 20
"""More than kubelet keeps by default; of a longer log the end is read."""

_NO_LOG = frozenset({400, 404})
"""What kubelet answers for a container that has not started, or is gone."""


class PodLogSource:
    """The logs of one attempt; what was read is kept, so a source is for one use."""

    def __init__(
        self, api: KubernetesApi, run_id: str, attempt: int, logs: Mapping[str, str]
    ) -> None:
        """Read through this API; `logs` names the log file of each pod by its key."""
        self._api = api
        self._run_id = run_id
        self._attempt = attempt
        folder = RunDirectory(Path()).logs(attempt)
        self._paths = {str(folder / log): key for key, log in logs.items()}
        self._pods: dict[str, str] | None = None
        self._texts: dict[str, bytes] = {}

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        parent = PurePosixPath(folder.strip("/"))
        found: dict[str, Entry] = {}
        for path in self._paths:
            place = PurePosixPath(path)
            if parent not in place.parents or not self._text(path):
                continue
            below = place.relative_to(parent).parts
            is_dir = len(below) > 1
            size = 0 if is_dir else len(self._text(path))
            found[below[0]] = Entry(name=below[0], size=size, mtime=0.0, is_dir=is_dir)
        return [found[name] for name in sorted(found)]

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is no such file."""
        return len(self._text(path)) or None if path in self._paths else None

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, less than asked for only at its end; nothing without a file."""
        return self._text(path)[offset : offset + size] if path in self._paths else b""

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people."""
        return f"pods://{self._run_id}/{path}"

    def _text(self, path: str) -> bytes:
        if path not in self._texts:
            self._texts[path] = self._read(self._paths[path])
        return self._texts[path]

    def _read(self, key: str) -> bytes:
        try:
            if self._pods is None:
                self._pods = self._look_up()
            pod = self._pods.get(key)
            if pod is None:
                return b""
            text = bytearray()
            for piece in self._api.pod_log(pod, container=pod_layout.MAIN):
                text += piece
                if len(text) > 2 * MAX_LOG_BYTES:
                    del text[:-MAX_LOG_BYTES]
        except KubernetesError as error:
            if error.status in _NO_LOG:
                return b""
            raise SourceUnavailableError(f"the log of pod {key}: {error}") from None
        if len(text) > MAX_LOG_BYTES:
            return bytes(text[text.find(b"\n", len(text) - MAX_LOG_BYTES) + 1 :])
        return bytes(text)

    def _look_up(self) -> dict[str, str]:
        labels = {naming.LABEL_RUN: self._run_id, naming.LABEL_ATTEMPT: str(self._attempt)}
        facts = map(pod_fact, self._api.list("Pod", labels=labels))
        return {fact.key: fact.name for fact in facts if fact is not None}
