"""Stores and sources for tests that fail when they are told to, and keep count."""

from collections.abc import Iterable
from pathlib import Path

from runtime.control.artifact_store import ArtifactStoreError, DirectoryStore
from runtime.control.run_source import FolderSource, SourceUnavailableError


class Killed(Exception):
    """The server was killed: nobody catches this."""


class FailingStore(DirectoryStore):
    """A directory whose n-th call ends in an error, half of an object written."""

    def __init__(self, root: Path) -> None:
        """Fail never."""
        super().__init__(root)
        self.num_calls = 0
        self.fails_at: int | None = None
        self.error: type[Exception] = ArtifactStoreError

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, or half of it."""
        self.num_calls += 1
        if self.num_calls == self.fails_at:
            (self._root / key).parent.mkdir(parents=True, exist_ok=True)
            temporary = self._root / key
            temporary.with_name(f".{temporary.name}.tmp").write_bytes(b"".join(pieces)[:10])
            raise self.error("the store is away")
        super().put(key, pieces)


class FailingSource(FolderSource):
    """A folder whose reads fail so many times."""

    num_failures = 0

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read, or fail."""
        if self.num_failures:
            self.num_failures -= 1
            raise SourceUnavailableError("the source is away")
        return super().read(path, offset, size)
