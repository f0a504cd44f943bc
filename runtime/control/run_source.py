"""RunSource: the files of one run directory, wherever they are; read-only.

A folder of this machine here, the file server of a cluster in `runtime.control.cluster_source`,
what was captured of a run in `runtime.control.captured_source`. Readers of runs and their capture
know only this.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from runtime.errors import PaddockError
from runtime.launch.files import RefusedPath, open_inside


class SourceUnavailableError(PaddockError):
    """The files of a run cannot be read now; they may be later."""

    code = "source_unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file or folder of a run directory; `mtime` is a Unix time in seconds."""

    name: str
    size: int
    mtime: float
    is_dir: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Uploaded:
    """What was sent of a file, by whoever sent it."""

    sha256: str
    md5: str


class RunSource(Protocol):
    """The files of a run directory; paths are relative to it, with slashes.

    Every method raises SourceUnavailableError where the source cannot be asked.
    """

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        ...

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is no such file."""
        ...

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, less than asked for only at its end; nothing without a file."""
        ...

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people."""
        ...


@runtime_checkable
class Uploads(Protocol):
    """A source that can write its files to a URL itself, without the server in between."""

    def upload(
        self, path: str, offset: int, size: int, url: str, check_time: Callable[[], None]
    ) -> Uploaded | None:
        """Write a part of a file to a URL; None where that cannot be done.

        Lets through what `check_time` raises, which is asked again and again meanwhile.
        """
        ...


@runtime_checkable
class Finds(Protocol):
    """A source that can look for texts in its files itself, beside them."""

    def find(
        self, path: str, span: tuple[int, int], texts: Sequence[bytes], *, folds: bool
    ) -> tuple[Sequence[tuple[int, int]], int] | None:
        """Return spans of whole lines that hold one of the texts, from the end of a span back.

        With them, the offset from which on all was looked at. `folds`: in any case; the texts are
        in lower case. None where that cannot be told.
        """
        ...


class FolderSource:
    """A run directory on this machine; a link in it leads nowhere out of it."""

    def __init__(self, path: Path) -> None:
        """Read this directory, which need not be there yet."""
        self._path = path

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        found = []
        with self._opened(folder) as descriptor:
            if descriptor is None or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return []
            for name in os.listdir(descriptor):
                with contextlib.suppress(OSError):  # removed in between
                    found.append(_entry(name, os.lstat(name, dir_fd=descriptor)))
        return sorted(found, key=lambda entry: entry.name)

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is no such file."""
        with self._opened(path) as descriptor:
            if descriptor is None:
                return None
            status = os.fstat(descriptor)
            return status.st_size if stat.S_ISREG(status.st_mode) else None

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, less than asked for only at its end; nothing without a file."""
        with self._opened(path) as descriptor:
            if descriptor is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            try:
                data = os.pread(descriptor, size, offset)
                while 0 < len(data) < size and (
                    more := os.pread(descriptor, size - len(data), offset + len(data))
                ):
                    data += more
            except OSError as error:
                raise _unavailable(path, error) from None
            return data

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people."""
        return (self._path / path).absolute().as_uri()

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int | None]:
        root, descriptor = None, None
        try:
            root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            descriptor = open_inside(root, path)
        except (RefusedPath, ValueError):
            pass
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}:
                raise _unavailable(path, error) from None
        finally:
            if root is not None:
                os.close(root)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)


def read_whole(source: RunSource, path: str, *, max_bytes: int) -> bytes | None:
    """Return a file, its last `max_bytes` where it is larger; None where there is no such file."""
    size = source.size(path)
    if size is None:
        return None
    kept = min(size, max_bytes)
    return source.read(path, size - kept, kept)


def moment(seconds: float) -> datetime | None:
    """Return a Unix time as a date, None where the calendar has none: a run can set any `mtime`."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(
        name=name,
        size=status.st_size,
        mtime=status.st_mtime,
        is_dir=stat.S_ISDIR(status.st_mode),
    )


def _unavailable(path: str, error: OSError) -> SourceUnavailableError:
    return SourceUnavailableError(f"{path or 'the run directory'}: {error.strerror}")
