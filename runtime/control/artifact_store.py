"""Where captured runs are kept: a directory, or a bucket by its s3:// URL.

Objects are written whole or not at all, and a key that is written twice holds the second. Which
keys there are is `runtime.control.capture`'s business.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from runtime import homes
from runtime.errors import PaddockError, Problem, SettingsError

ARTIFACTS_VARIABLE = "PADDOCK_ARTIFACTS"
"""Environment variable with the directory or s3:// URL of the artifact store."""

_LASTING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})
"""What a folder says that cannot be written until somebody mends it; not a disk that is full."""

_CHECKS = ".checks"
"""Folder of what `check_artifact_store` writes; the id of no run begins with a dot."""


class ArtifactStoreError(PaddockError):
    """The artifact store cannot be used now."""

    code = "artifact_store"


class ArtifactRefusedError(ArtifactStoreError):
    """The artifact store refuses what is asked, and will as long as nobody changes its settings."""


class ArtifactStore(Protocol):
    """Objects by key; every method raises ArtifactStoreError where the store does not answer."""

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, whole or not at all."""
        ...

    def size(self, key: str) -> int | None:
        """Return the size of an object, None where there is none."""
        ...

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object, less than asked for only at its end; nothing without one."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below a folder."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; one that is gone is as good."""
        ...

    def url(self, key: str) -> str:
        """Return where an object lies, for people."""
        ...


def artifacts_url(environ: Mapping[str, str]) -> str:
    """Return where a server keeps what it captures: of the environment, else in PADDOCK_HOME."""
    return environ.get(ARTIFACTS_VARIABLE) or str(homes.home_path(environ) / "artifacts")


def open_artifact_store(where: str) -> ArtifactStore:
    """Return the store of a directory's path or of an s3:// URL; credentials are the environment's.

    Raises SettingsError for a URL of another kind.
    """
    if "://" not in where:
        return DirectoryStore(Path(where).expanduser().absolute())
    scheme = urlsplit(where).scheme
    if scheme == "file":
        return DirectoryStore(Path(urlsplit(where).path))
    if scheme != "s3":
        problem = Problem(
            loc=("artifacts",),
            message=f"{scheme}:// is no artifact store",
            fix="a directory, or s3://bucket/prefix",
        )
        raise SettingsError([problem], source="artifacts")
    from runtime.control.bucket_store import BucketStore

    return BucketStore(where)


def check_artifact_store(store: ArtifactStore, name: str) -> None:
    """Write, read back and remove an object of a name that nobody else uses.

    Raises ArtifactRefusedError where the store lets this server not do it, and ArtifactStoreError
    where it does not answer.
    """
    key, data = f"{_CHECKS}/{name}", name.encode()
    store.put(key, [data])
    if store.read(key, 0, len(data) + 1) != data:
        raise ArtifactStoreError(f"{store.url(key)} does not read back as it was written")
    store.delete(key)


class DirectoryStore:
    """Objects as files of a directory that only its owner reads."""

    def __init__(self, root: Path) -> None:
        """Keep objects below this directory; it is made with the first one."""
        self._root = root

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, whole or not at all."""
        path = self._root / key
        temporary = path.with_name(f".{path.name[:200]}.tmp")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            raise _failed(f"write {path}", error) from None

    def size(self, key: str) -> int | None:
        """Return the size of an object, None where there is none."""
        try:
            return (self._root / key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failed(f"read {self._root / key}", error) from None

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object, less than asked for only at its end; nothing without one."""
        try:
            with (self._root / key).open("rb", buffering=0) as file:
                file.seek(offset)
                data = file.read(size)
                while 0 < len(data) < size and (more := file.read(size - len(data))):
                    data += more
                return data
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise _failed(f"read {self._root / key}", error) from None

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below a folder."""
        found = []
        for folder, _, names in os.walk(self._root / prefix):
            place = Path(folder).relative_to(self._root)
            found += [str(place / name) for name in names if not name.endswith(".tmp")]
        return sorted(found)

    def delete(self, key: str) -> None:
        """Remove an object, and folders that are empty then."""
        path = self._root / key
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed(f"remove {path}", error) from None
        with contextlib.suppress(OSError):
            for parent in path.parents:
                if parent == self._root:
                    break
                parent.rmdir()

    def url(self, key: str) -> str:
        """Return where an object lies, for people."""
        return (self._root / key).as_uri()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(what: str, error: OSError) -> ArtifactStoreError:
    said = f"cannot {what}: {error.strerror}"
    if error.errno in _LASTING:
        return ArtifactRefusedError(f"{said}: set {ARTIFACTS_VARIABLE} to a folder of yours")
    return ArtifactStoreError(said)
