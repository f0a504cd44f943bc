"""ClusterSource: a run directory on a cluster's run volume, through the cluster's file server."""

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.control.run_source import Entry, SourceUnavailableError
from runtime.observe.kubernetes.run_files import MAX_READ_BYTES, FilesUnavailableError, RunFiles


class ClusterSource:
    """The files of one run on a cluster."""

    def __init__(self, files: RunFiles, run_id: str) -> None:
        """Read this run through this server; nothing is asked yet."""
        self._files = files
        self._run_id = run_id

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        with _asking():
            found = self._files.entries(self._run_id, folder)
        return [
            Entry(
                name=str(one["name"]),
                size=int(one["size"]),
                mtime=float(one["mtime"]),
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
        return bytes(data)

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people: its place on the run volume."""
        return f"volume://runs/{self._run_id}/{path}"


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except FilesUnavailableError as error:
        raise SourceUnavailableError(str(error)) from None
