"""ClusterSource: a run directory on a cluster's run volume, through the cluster's file server.

What is large goes from the volume to a bucket without the server in between, by a Job.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.control.run_source import Entry, SourceUnavailableError, Uploaded
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_errors import KubernetesError
from runtime.kubernetes_profile import RUNS_FOLDER
from runtime.kubernetes_volume_job import VolumeTask, VolumeTaskError, run_volume_task
from runtime.launch.volume_task import UPLOAD_URL
from runtime.observe.kubernetes.run_files import (
    MAX_READ_BYTES,
    OFFER,
    FilesUnavailableError,
    RunFiles,
)

_LOG = logging.getLogger(__name__)


class ClusterSource:
    """The files of one run on a cluster."""

    def __init__(
        self,
        files: RunFiles,
        run_id: str,
        upload: Callable[[VolumeTask], Mapping[str, Any]] | None = None,
    ) -> None:
        """Read this run through this server; `upload` does a task beside its volume."""
        self._files = files
        self._run_id = run_id
        self._upload = upload

    def upload(
        self,
        path: str,
        offset: int,
        size: int,
        url: str,
        check_time: Callable[[], None] = lambda: None,
    ) -> Uploaded | None:
        """Write a part of a file to a URL from inside the cluster; None where that cannot be."""
        if self._upload is None:
            return None
        task = VolumeTask(
            words=("upload", path, str(offset), str(size)),
            sub_path=f"{RUNS_FOLDER}/{self._run_id}",
            is_read_only=True,
            secrets={UPLOAD_URL: url},
            check_time=check_time,
        )
        try:
            said = self._upload(task)
            return Uploaded(sha256=str(said["sha256"]), md5=str(said["md5"]))
        except (VolumeTaskError, KubernetesError, KeyError) as error:
            what, run_id = "%s of %s goes through this server: %s", self._run_id
            _LOG.warning(what, path, run_id, error, extra={"run": run_id})
            self._upload = None
            return None

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        with _asking():
            found = self._files.entries(self._run_id, folder)
        return [
            Entry(
                name=str(one["name"]),
                size=int(one["size"]),
                mtime=_seconds(one["mtime"]),
                is_dir=bool(one["is_dir"]),
            )
            for one in found
        ]

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is no such file."""
        with _asking():
            piece = self._files.read(self._run_id, path, limit=1)
        return None if piece is None else piece.size

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, less than asked for only at its end; nothing without a file."""
        data = bytearray()
        while len(data) < size:
            limit = min(MAX_READ_BYTES, size - len(data))
            with _asking():
                piece = self._files.read(self._run_id, path, offset=offset + len(data), limit=limit)
            if piece is None or not piece.data:
                break
            data += piece.data
            if len(piece.data) < limit:
                break
        return bytes(data)

    def find(
        self, path: str, span: tuple[int, int], texts: Sequence[bytes], *, folds: bool
    ) -> tuple[Sequence[tuple[int, int]], int] | None:
        """Return spans of whole lines that hold one of the texts, and how far back that is told."""
        with _asking():
            found = self._files.find(self._run_id, path, span, texts, folds=folds)
        return None if found is None else (found.spans, found.reached)

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people: its place on the run volume."""
        return f"volume://runs/{self._run_id}/{path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterReach:
    """A connection to a cluster: its API, its file server, and tasks beside its run volume."""

    api: KubernetesApi
    files: RunFiles
    do: Callable[[VolumeTask], Mapping[str, Any]]


def open_reach(profile: ClusterProfile, connection: KubernetesConnection) -> ClusterReach:
    """Return a connection to a cluster; nothing is asked yet."""
    api = KubernetesApi.connect(connection)
    offer = profile.kubernetes

    def do(task: VolumeTask) -> Mapping[str, Any]:
        assert offer is not None, "a cluster whose profile says what pods are made with"
        return run_volume_task(api, offer, task)

    files = offer.files if offer is not None else None
    return ClusterReach(api=api, files=RunFiles(api, offer=files or OFFER), do=do)


class ClusterFolders:
    """Run directories on a cluster's run volume, moved and deleted by Jobs beside it."""

    def __init__(self, do: Callable[[VolumeTask], Mapping[str, Any]]) -> None:
        """Do tasks so."""
        self._do = do

    def set_aside(self, run_id: str) -> bool:
        """Take a directory out of the way in one step; False where there is none."""
        return bool(self._task("aside", run_id).get("moved"))

    def put_back(self, run_id: str) -> None:
        """Undo `set_aside`."""
        self._task("back", run_id)

    def delete(self, run_id: str) -> None:
        """Delete what was set aside."""
        self._task("delete", run_id)

    def _task(self, verb: str, run_id: str) -> Mapping[str, Any]:
        return self._do(VolumeTask(words=(verb, run_id), sub_path=RUNS_FOLDER))


def _seconds(value: object) -> float:
    """Return a time as a number that JSON can say, for a capture's manifest; 0 for any other."""
    try:
        seconds = float(str(value))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except FilesUnavailableError as error:
        raise SourceUnavailableError(str(error)) from None
