"""BucketStore: an artifact store in a bucket of S3, or of what speaks as S3 does.

Every request is signed with the environment's credentials, and what is sent is signed with it, so
that the store refuses a body that was damaged on its way. An outage is waited out for half a minute
at a time: whoever asks tries again, and has its own deadline.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING

from runtime.control.artifact_store import ArtifactRefusedError, ArtifactStoreError
from runtime.errors import Problem, SettingsError, SetupError

if TYPE_CHECKING:
    from obstore.store import S3Store

_PART_BYTES = 16 << 20
_MD5 = re.compile("[0-9a-f]{32}")
_REASON = re.compile(r"<Code>([^<]{1,80})</Code>(?:.*?<Message>([^<]{1,300})</Message>)?", re.S)
_MAX_WORDS = 300
_NUM_RETRIES = 6
_RETRY_S = 30
_REQUEST_S = 120
"""A part on a slow line; the library's 30 s are a line of 5 Mbit/s."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment"


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
            rest = iter(pieces)
            first = bytearray()
            for piece in rest:
                first += piece
                if len(first) > _PART_BYTES:
                    whole = chain([bytes(first)], rest)
                    obstore.put(self._store, key, whole, chunk_size=_PART_BYTES)
                    return
            # one request; in parts it would be three
            obstore.put(self._store, key, bytes(first), use_multipart=False)

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

    def signed_get(self, key: str, valid: timedelta) -> str:
        """Return a URL from which whoever has it may read an object for a time: a secret."""
        import obstore

        with _asking(f"sign {self._url}/{key}"):
            return obstore.sign(self._store, "GET", key, valid)

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
    from obstore.exceptions import BaseError

    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    try:
        return S3Store.from_url(
            url,
            client_options={"allow_http": plain, "timeout": timedelta(seconds=_REQUEST_S)},
            retry_config={
                "max_retries": _NUM_RETRIES,
                "retry_timeout": timedelta(seconds=_RETRY_S),
            },
        )
    except (BaseError, ValueError) as error:
        fix = f"s3://bucket/prefix, with {_CREDENTIALS}"
        problem = Problem(loc=("artifacts",), message=_reason(str(error)), fix=fix)
        raise SettingsError([problem], source="artifacts") from None


@contextlib.contextmanager
def _asking(what: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise ArtifactRefusedError(
            f"cannot {what}: the store refuses it ({_reason(str(error))}): see {_CREDENTIALS}"
        ) from None
    except (BaseError, OSError) as error:
        raise ArtifactStoreError(f"cannot {what}: {_reason(str(error))}") from None


def _reason(words: str) -> str:
    """Return what the store said, else the first line of what the library says.

    The library's own words go on with the whole request.
    """
    match = _REASON.search(words)
    if match is not None:
        return ": ".join(filter(None, match.groups()))
    lines = words.strip().splitlines()
    return lines[0][:_MAX_WORDS] if lines else "no reason is known"
