"""RunFiles: the run directories of a cluster, read through its file servers and the API server.

A server is `runtime/launch/files.py`, in a pod of a `files` Deployment: the cluster's, or a
volume's. Which one shows a run is asked. Every read is bounded.
Where there is no server, or it does not answer, a read raises FilesUnavailableError: callers go on
with what the API itself knows.
"""

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.cluster import FilesOffer
from runtime.errors import PaddockError
from runtime.kubernetes_api import ForbiddenError, KubernetesApi, KubernetesError, UnreachableError
from runtime.kubernetes_profile import FILES_PORT, FILES_SECRET, FILES_SELECTOR

if TYPE_CHECKING:
    import httpx

MAX_READ_BYTES = 4 << 20
"""The most that one read returns."""

OFFER = FilesOffer(selector=FILES_SELECTOR, port=FILES_PORT, secret=FILES_SECRET)
"""How a cluster stack names its file server."""

_RELATIVE = RunDirectory(Path())

METRICS = str(_RELATIVE.metrics)
"""The metrics file, below a run directory."""

_POD_TTL_S = 60.0
_ABSENT_TTL_S = 5.0
"""How long nobody asks again for a server that there is not, or that does not answer."""

_RANGE_TOTAL = re.compile(r"bytes \*/(\d+)")


class FilesUnavailableError(PaddockError):
    """The cluster's file server cannot be asked."""

    code = "files_unavailable"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: its bytes, where they begin, and the size of the whole file."""

    data: bytes
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """Where lines may be, the last ones first, and the offset from which on all were looked at."""

    spans: tuple[tuple[int, int], ...]
    reached: int


class RunFiles:
    """Reads files of run directories; keeps the servers' pods and token between reads."""

    def __init__(self, api: KubernetesApi, *, offer: FilesOffer = OFFER) -> None:
        """Read through this API; nothing is asked yet."""
        self._api = api
        self._offer = offer
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._trouble = ""
        self._is_cut_off = False
        self._silent: dict[str, float] = {}
        self._pods: tuple[str, ...] = ()
        self._pods_until = 0.0
        self._token = ""
        self._chosen: dict[str, tuple[str, float]] = {}

    @property
    def is_cut_off(self) -> bool:
        """Tell whether the API did not answer when it was last asked for the servers."""
        return self._is_cut_off

    def read(
        self, run_id: str, path: str, *, offset: int = 0, limit: int = MAX_READ_BYTES
    ) -> Piece | None:
        """Return a piece of a file, None where there is no such file (yet)."""
        limit = min(limit, MAX_READ_BYTES)
        span = f"bytes={offset}-{offset + limit - 1}"
        with self._ask(run_id, "files", path, headers={"Range": span}) as response:
            if response.status_code == 404:
                return None
            if response.status_code == 416:
                total = _RANGE_TOTAL.fullmatch(response.headers.get("Content-Range", ""))
                return Piece(b"", offset, int(total[1]) if total else 0)
            self._check(response)
            data = response.read()
            size = response.headers.get("X-Paddock-Size")
            return Piece(data[:limit], offset, int(size) if size else offset + len(data))

    def tail(self, run_id: str, path: str, *, num_lines: int) -> Piece | None:
        """Return the last lines of a file, at most some megabytes; None where there is none."""
        query = {"lines": str(num_lines)}
        with self._ask(run_id, "tail", path, query=query) as response:
            if response.status_code == 404:
                return None
            self._check(response)
            offset = int(response.headers.get("X-Paddock-Offset", "0"))
            data = response.read()
            return Piece(data, offset, offset + len(data))

    def find(
        self, run_id: str, path: str, span: tuple[int, int], texts: Sequence[bytes], *, folds: bool
    ) -> Found | None:
        """Return spans of whole lines that hold one of some texts, from the end of a span back.

        `folds`: in any case; the texts are in lower case. None where that cannot be told: there is
        no such file, or a server of an earlier release.
        """
        headers = {"X-Paddock-Texts": ",".join(text.hex() for text in texts)}
        query = {"start": str(span[0]), "end": str(span[1])} | ({"folds": "1"} if folds else {})
        with self._ask(run_id, "find", path, headers=headers, query=query) as response:
            if response.status_code == 404:
                return None
            self._check(response)
            said = json.loads(response.read())
            spans = tuple((int(begin), int(end)) for begin, end in said["spans"])
            return Found(spans, int(said["from"]))

    def names(self, run_id: str, folder: str) -> list[str]:
        """Return the names in a folder, none where there is no such folder."""
        return [str(entry["name"]) for entry in self.entries(run_id, folder)]

    def entries(self, run_id: str, folder: str) -> list[dict[str, Any]]:  # Any: values of JSON
        """Return name, size, mtime and is_dir of all in a folder, none where there is no folder."""
        with self._ask(run_id, "list", folder) as response:
            if response.status_code == 404:
                return []
            self._check(response)
            return list(json.loads(response.read()))

    @contextlib.contextmanager
    def _ask(
        self,
        run_id: str,
        verb: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> "Iterator[httpx.Response]":
        pod = self._pod_of(run_id)
        try:
            response = self._get(pod, f"{verb}/{run_id}/{path}", headers=headers, query=query)
            with contextlib.closing(response):
                yield response
        except KubernetesError as error:
            self._forget()
            raise FilesUnavailableError(f"the file server does not answer: {error}") from None

    def _get(
        self,
        pod: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> "httpx.Response":
        own = {**(headers or {}), "X-Paddock-Token": self._token}
        with self._lock:
            if time.monotonic() < self._silent.get(pod, 0.0):
                raise UnreachableError(f"pod {pod} did not answer a moment ago")
        try:
            return self._api.proxy(pod, self._offer.port, path, headers=own, query=query)
        except UnreachableError:
            now = time.monotonic()
            with self._lock:
                others = {one: until for one, until in self._silent.items() if now < until}
                self._silent = {**others, pod: now + _ABSENT_TTL_S}
            raise

    def _check(self, response: "httpx.Response") -> None:
        if response.status_code < 400:
            return
        self._forget()
        words = response.read()[:200].decode(errors="replace").strip()
        raise FilesUnavailableError(f"the file server says {response.status_code}: {words}")

    def _pod_of(self, run_id: str) -> str:
        """Return the server that shows a run, the cluster's own where none does (yet)."""
        pods = self._servers()
        if len(pods) == 1:
            return pods[0]
        with self._lock:
            chosen, until = self._chosen.get(run_id, ("", 0.0))
        if chosen and time.monotonic() < until:
            return chosen
        shown = next((pod for pod in pods if self._shows(pod, run_id)), "")
        with self._lock:
            ttl_s = _POD_TTL_S if shown else _ABSENT_TTL_S
            self._chosen[run_id] = shown or pods[0], time.monotonic() + ttl_s
            return self._chosen[run_id][0]

    def _shows(self, pod: str, run_id: str) -> bool:
        try:
            with contextlib.closing(self._get(pod, f"list/{run_id}/")) as response:
                return response.status_code == 200
        except KubernetesError:
            return False

    def _servers(self) -> tuple[str, ...]:
        """Return the pods of the servers, the cluster's own first; kept for a while.

        One reader asks, and the others wait for what it hears; where none heard of a server
        before, they do not: it may take a minute to find out that a cluster does not answer.
        """
        found = self._known()
        if found is not None:
            return found
        if not self._looking.acquire(blocking=not self._trouble):
            raise FilesUnavailableError(self._trouble)
        try:
            found = self._known()
            return self._learn() if found is None else found
        finally:
            self._looking.release()

    def _known(self) -> tuple[str, ...] | None:
        """Return the servers as of a moment ago, None where they are to be asked for."""
        with self._lock:
            if time.monotonic() >= self._pods_until:
                return None
            if self._trouble:
                raise FilesUnavailableError(self._trouble)
            return self._pods

    def _learn(self) -> tuple[str, ...]:
        pods: tuple[str, ...] = ()
        trouble, is_cut_off = "", False
        try:
            pods = self._look_up()
            if not pods:
                where = f"namespace {self._api.namespace}"
                trouble = f"no file server runs in {where}: paddock doctor"
        except KubernetesError as error:
            trouble = f"the file server cannot be found: {error}"
            is_cut_off = not isinstance(error, ForbiddenError)
        with self._lock:
            self._pods, self._trouble, self._is_cut_off = pods, trouble, is_cut_off
            self._pods_until = time.monotonic() + (_POD_TTL_S if pods else _ABSENT_TTL_S)
            self._chosen.clear()
        if trouble:
            raise FilesUnavailableError(trouble)
        return pods

    def _look_up(self) -> tuple[str, ...]:
        selector = dict(self._offer.selector)
        pods = [one for one in self._api.list("Pod", labels=selector) if _is_ready(one)]
        secret = self._api.get("Secret", self._offer.secret) if pods else None
        token = ((secret or {}).get("data") or {}).get("token")
        if not token:
            return ()
        self._token = base64.b64decode(token).decode().strip()
        return tuple(str(pod["metadata"]["name"]) for pod in sorted(pods, key=_is_of_a_volume))

    def _forget(self) -> None:
        with self._lock:
            if not self._trouble:  # what was just heard of the cluster holds
                self._pods_until = 0.0


def log_path(attempt: int, log: str) -> str:
    """Return where a component's log lies below a run directory."""
    return str(_RELATIVE.logs(attempt) / log)


def status_folder(attempt: int) -> str:
    """Return where the wrappers' status files of an attempt lie below a run directory."""
    return str(_RELATIVE.status_folder(attempt))


def _is_of_a_volume(pod: dict[str, Any]) -> bool:  # Any: JSON values
    return naming.LABEL_VOLUME in (pod["metadata"].get("labels") or {})


def _is_ready(pod: dict[str, object]) -> bool:
    status = pod.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in conditions or ()
    )
