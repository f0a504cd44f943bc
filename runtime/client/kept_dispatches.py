"""The Idempotency-Key of a dispatch, kept until the server has answered.

Who types the same command again after a timeout, a Ctrl-C or a broken connection asks under the
same key, and so gets the run that the first request made. A file in PADDOCK_HOME/dispatches is
named after a digest of the request and the key; its lock is held while the request is under way,
so that two of the same at once are two runs. No value of a secret is kept or hashed.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime import homes
from runtime.client.errors import ServerError, UnreachableError

KEPT_S = 3600.0
"""A dispatch without an answer is taken up within an hour; later it is a new one."""

_FOLDER = "dispatches"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A dispatch under its key; `is_again` where an earlier one of the same got no answer."""

    key: str
    is_again: bool


@contextmanager
def attempted(digest: str, environ: Mapping[str, str]) -> Iterator[Attempt]:
    """Yield the attempt of a dispatch: an earlier one that got no answer, else a new one.

    It is kept where the block ends without an answer, else forgotten.
    """
    folder = homes.make_home(environ) / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    taken = _take_up(folder, digest)
    path, descriptor = taken or _begin(folder, digest)
    try:
        yield Attempt(key=path.name.rpartition("-")[2], is_again=taken is not None)
        path.unlink(missing_ok=True)
    except (UnreachableError, ServerError, KeyboardInterrupt):
        raise  # the run may have been made
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _take_up(folder: Path, digest: str) -> tuple[Path, int] | None:
    """Return a kept dispatch and its lock, None where there is none; forget those too old."""
    for path in sorted(folder.iterdir()):
        descriptor = _lock(path, os.O_RDWR)
        if descriptor is None:
            continue
        if time.time() - os.fstat(descriptor).st_mtime > KEPT_S:
            path.unlink(missing_ok=True)
        elif path.name.startswith(f"{digest}-"):
            return path, descriptor
        os.close(descriptor)
    return None


def _begin(folder: Path, digest: str) -> tuple[Path, int]:
    while True:
        path = folder / f"{digest}-{secrets.token_hex(16)}"
        descriptor = _lock(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if descriptor is not None:  # else another process took it up before it was locked
            return path, descriptor


def _lock(path: Path, flags: int) -> int | None:
    """Return the descriptor that holds a file's lock, None where it is held, or answered."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        return None
    return descriptor
