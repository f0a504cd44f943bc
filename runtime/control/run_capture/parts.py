"""One part of a file: read from the source, written to the store, read back, compared.

A part is what an interrupted capture need not do again.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import quote

import zstandard

from runtime.control.artifact_store import ArtifactStore, ArtifactStoreError
from runtime.control.bucket_store import BucketStore
from runtime.control.log_search.block import rank_at_end
from runtime.control.log_search.frames import Frame, compress, cut_frames, top_rank
from runtime.control.log_search.text import readable
from runtime.control.log_search.trigrams import bitmap_of
from runtime.control.manifest import Part, frames_key, pack_frames, trigrams_key
from runtime.control.run_capture.chosen_files import is_log, is_text
from runtime.control.run_source import RunSource, Uploads

TEXT_PART_BYTES = 64 << 20
RAW_PART_BYTES = 4 << 30
"""Under what S3 takes in one copy, and above most files of a checkpoint: those stay one object."""

UPLOAD_BYTES = 64 << 20
"""From this size on a file of a cluster is worth a Job that uploads it."""

_UPLOAD_VALID = timedelta(hours=6)
_READ = 4 << 20
_MAX_NAME = 200


class FileChangedError(Exception):
    """A file is shorter than it was when its capture began."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """What of a file is captured next: from `offset` on, of `size` bytes altogether."""

    run_id: str
    path: str
    size: int
    offset: int = 0
    number: int = 0
    first_rank: int = 0
    check_time: Callable[[], None] = lambda: None
    """Asked while a part is read; raises where there is no more time for it."""


def write_part(source: RunSource, store: ArtifactStore, wanted: Slice) -> Part:
    """Write the next part of a file and return it.

    Raises FileChangedError, SourceUnavailableError, and ArtifactStoreError also for an object that
    does not read back as it was written.
    """
    if is_text(wanted.path):
        return _write_text(source, store, wanted)
    size = min(RAW_PART_BYTES, wanted.size - wanted.offset)
    if size >= UPLOAD_BYTES and isinstance(store, BucketStore) and isinstance(source, Uploads):
        part = _upload(source, store, wanted, size)
        if part is not None:
            return part
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for piece in _pieces(source, wanted, wanted.offset + size):
            digest.update(piece)
            yield piece

    key = _key(wanted, is_text=False)
    store.put(key, pieces())
    _check(store, key, digest.hexdigest(), size)
    return Part(key=key, size=size, sha256=digest.hexdigest(), stored_size=size)


def _upload(source: Uploads, store: BucketStore, wanted: Slice, size: int) -> Part | None:
    """Let the source write a part itself; the store's own checksum is compared with the sender's.

    None where the source cannot, or the store has no such checksum.
    """
    key = _key(wanted, is_text=False)
    url = store.signed_put(key, _UPLOAD_VALID)
    sent = source.upload(wanted.path, wanted.offset, size, url, wanted.check_time)
    if sent is None or (stored := store.md5(key)) is None:
        return None
    if stored != sent.md5 or store.size(key) != size:
        raise ArtifactStoreError(f"{store.url(key)} is not what was sent")
    return Part(key=key, size=size, sha256=sent.sha256, stored_size=size)


def _write_text(source: RunSource, store: ArtifactStore, wanted: Slice) -> Part:
    made = _Text(is_log=is_log(wanted.path), rank=wanted.first_rank, offset=wanted.offset)
    key = _key(wanted, is_text=True)
    store.put(key, made.compressed(_pieces(source, wanted, wanted.size)))
    _check_text(store, key, made)
    part = Part(
        key=key,
        size=made.offset - wanted.offset,
        sha256=made.digest.hexdigest(),
        stored_size=made.stored_size,
        num_frames=len(made.frames),
        has_trigrams=made.is_log,
        last_rank=made.rank,
    )
    if part.num_frames > 1:
        _put_small(store, frames_key(part), pack_frames(made.frames))
    if made.is_log:
        _put_small(store, trigrams_key(part), compress(b"".join(made.bitmaps)))
    return part


@dataclass(kw_only=True, slots=True)
class _Text:
    """The frames of one part as they are made."""

    is_log: bool
    rank: int
    offset: int
    frames: list[Frame] = field(default_factory=list)
    bitmaps: list[bytes] = field(default_factory=list)
    stored_size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def compressed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the compressed frames of a part's text."""
        start = self.offset
        for raw in cut_frames(pieces):
            data = compress(raw)
            self.digest.update(raw)
            self._enter(raw, len(data))
            yield data
            if self.offset - start >= TEXT_PART_BYTES:
                return

    def _enter(self, raw: bytes, stored_size: int) -> None:
        frame = Frame(
            offset=self.offset,
            size=len(raw),
            stored_offset=self.stored_size,
            stored_size=stored_size,
        )
        if self.is_log:
            text = readable(raw)
            ranks = {"first_rank": self.rank, "top_rank": top_rank(text, self.rank)}
            frame = frame.model_copy(update=ranks)
            self.bitmaps.append(bitmap_of(text))
            self.rank = rank_at_end(text, self.rank)
        self.frames.append(frame)
        self.offset += len(raw)
        self.stored_size += stored_size


def _pieces(source: RunSource, wanted: Slice, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file from the slice's begin on; raises FileChangedError."""
    offset = wanted.offset
    while offset < end:
        wanted.check_time()
        size = min(_READ, end - offset)
        piece = source.read(wanted.path, offset, size)
        if len(piece) < size:
            raise FileChangedError(wanted.path)
        offset += size
        yield piece


def _check(store: ArtifactStore, key: str, digest: str, size: int) -> None:
    """Raise ArtifactStoreError where an object is not what was written."""
    found, offset = hashlib.sha256(), 0
    while offset < size and (piece := store.read(key, offset, _READ)):
        found.update(piece)
        offset += len(piece)
    if offset != size or store.size(key) != size or found.hexdigest() != digest:
        raise ArtifactStoreError(f"{store.url(key)} does not read back as it was written")


def _check_text(store: ArtifactStore, key: str, made: _Text) -> None:
    """Raise ArtifactStoreError where the frames of an object do not give the text again."""
    found = hashlib.sha256()
    decompressor = zstandard.ZstdDecompressor()
    for frame in made.frames:
        data = store.read(key, frame.stored_offset, frame.stored_size)
        try:
            found.update(decompressor.decompress(data))
        except zstandard.ZstdError as error:
            raise ArtifactStoreError(f"{store.url(key)}: {error}") from None
    if found.digest() != made.digest.digest() or store.size(key) != made.stored_size:
        raise ArtifactStoreError(f"{store.url(key)} does not hold the text that was read")


def _put_small(store: ArtifactStore, key: str, data: bytes) -> None:
    store.put(key, [data])
    if store.read(key, 0, len(data) + 1) != data:
        raise ArtifactStoreError(f"{store.url(key)} does not read back as it was written")


def _key(wanted: Slice, *, is_text: bool) -> str:
    """Return the key of a part; no two parts of a run share one, whatever its files are called."""
    folder, suffix = ("text", ".zst") if is_text else ("files", "")
    path = "/".join(map(_name, wanted.path.split("/")))
    if wanted.number == 0:
        return f"{wanted.run_id}/{folder}/{path}{suffix}"
    return f"{wanted.run_id}/{folder}-parts/{path}/{wanted.number:05}{suffix}"


def _name(name: str) -> str:
    """Return a name that every store takes; a run may call its files anything."""
    quoted = quote(name.encode("utf-8", "surrogateescape"), safe="-_.+=@ ")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) <= _MAX_NAME:
        return quoted
    digest = hashlib.sha256(quoted.encode()).hexdigest()[:16]
    return f"{quoted[: _MAX_NAME - 17]}-{digest}"
