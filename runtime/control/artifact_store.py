"""Where captured runs are kept: a directory, or a bucket by its s3:// URL.

Objects are written whole or not at all, and a key that is written twice holds the second. Which
keys there are is `runtime.control.capture`'s business.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from runtime import homes
from runtime.errors import PaddockError, Problem, SettingsError, SetupError

if TYPE_CHECKING:
    from obstore.store import S3Store

ARTIFACTS_VARIABLE = "PADDOCK_ARTIFACTS"
"""Environment variable with the directory or s3:// URL of the artifact store."""

_PART_BYTES = 16 << 20
_MD5 = re.compile("[0-9a-f]{32}")


class ArtifactStoreError(PaddockError):
    """The artifact store cannot be used now."""

    code = "artifact_store"


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
    return BucketStore(where)


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


class BucketStore:
    """Objects of a bucket; AWS_ENDPOINT_URL and AWS_* of the environment say how it is reached."""

    def __init__(self, url: str, *, store: "S3Store | None" = None) -> None:
        """Keep objects below this URL; nothing is asked yet."""
        self._url = url.rstrip("/")
        self._store = store or _open_bucket(self._url)

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, whole or not at all; a large one in several parts."""
        import obstore

        with _asking(f"write {self._url}/{key}"):
            obstore.put(self._store, key, iter(pieces), chunk_size=_PART_BYTES)

    def size(self, key: str) -> int | None:
        """Return the size of an object, None where there is none."""
        import obstore

        with _asking(f"read {self._url}/{key}"):
            try:
                return int(obstore.head(self._store, key)["size"])
            except FileNotFoundError:
                return None

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object, less than asked for only at its end; nothing without one."""
        import obstore

        whole = self.size(key)  # a range behind the end is an error there
        if whole is None or offset >= whole or size <= 0:
            return b""
        with _asking(f"read {self._url}/{key}"):
            length = min(size, whole - offset)
            return bytes(obstore.get_range(self._store, key, start=offset, length=length))

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below a folder."""
        import obstore

        with _asking(f"list {self._url}/{prefix}"):
            pages = obstore.list(self._store, prefix.rstrip("/") + "/")
            return sorted(str(one["path"]) for page in pages for one in page)

    def delete(self, key: str) -> None:
        """Remove an object; one that is gone is as good."""
        import obstore

        with _asking(f"remove {self._url}/{key}"), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    def url(self, key: str) -> str:
        """Return where an object lies, for people."""
        return f"{self._url}/{key}"

    def signed_put(self, key: str, valid: timedelta) -> str:
        """Return a URL to which whoever has it may write an object for a time: a secret."""
        import obstore

        with _asking(f"sign {self._url}/{key}"):
            return obstore.sign(self._store, "PUT", key, valid)

    def md5(self, key: str) -> str | None:
        """Return what the store calls the MD5 of an object written in one piece, None for others.

        Source: Amazon S3, "Checking object integrity": the ETag, except with KMS or in parts.
        """
        import obstore

        with _asking(f"read {self._url}/{key}"):
            tag = str(obstore.head(self._store, key)["e_tag"] or "").strip('"')
        return tag if _MD5.fullmatch(tag) else None


def _open_bucket(url: str) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ModuleNotFoundError as error:
        raise SetupError(
            f"an artifact store on S3 needs {error.name}: install paddock with its extra `server`"
        ) from None
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return S3Store.from_url(url, client_options={"allow_http": plain})


@contextlib.contextmanager
def _asking(what: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        # the library's words hold the request; its first line says what is wrong
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise ArtifactStoreError(f"cannot {what}: {words[0][:300]}") from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(what: str, error: OSError) -> ArtifactStoreError:
    return ArtifactStoreError(f"cannot {what}: {error.strerror}")
