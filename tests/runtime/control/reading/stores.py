"""Stores and sources for tests that fail when they are told to, and keep count."""

from collections.abc import Iterable
from pathlib import Path

from runtime.control.artifact_store import ArtifactStoreError, DirectoryStore
from runtime.control.run_source import Entry, FolderSource, SourceUnavailableError


class Killed(Exception):
    """The server was killed: nobody catches this."""


class DictStore:
    """Objects in memory."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Keep an object."""
        self.objects[key] = b"".join(pieces)

    def size(self, key: str) -> int | None:
        """Return the size of an object."""
        return len(self.objects[key]) if key in self.objects else None

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        return self.objects.get(key, b"")[offset : offset + size]

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below a folder."""
        return sorted(key for key in self.objects if key.startswith(f"{prefix}/"))

    def delete(self, key: str) -> None:
        """Forget an object."""
        self.objects.pop(key, None)

    def url(self, key: str) -> str:
        """Return a name."""
        return f"memory://{key}"


class DictSource:
    """Files in memory, in one folder."""

    def __init__(self, files: dict[str, bytes]) -> None:
        """Hold these files."""
        self._files = files

    def entries(self, folder: str) -> list[Entry]:
        """Return nothing: nobody asks."""
        return []

    def size(self, path: str) -> int | None:
        """Return the size of a file."""
        return len(self._files[path]) if path in self._files else None

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file."""
        return self._files.get(path, b"")[offset : offset + size]

    def url(self, path: str) -> str:
        """Return a name."""
        return f"memory://{path}"


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
