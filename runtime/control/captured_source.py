"""CapturedSource: the run directory of a run as it was captured, read from the artifact store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial

import zstandard

from runtime.control.artifact_store import ArtifactStore, ArtifactStoreError
from runtime.control.log_search.block import rank_at_end
from runtime.control.log_search.frames import Frame, decompress, frame_blocks
from runtime.control.log_search.patterns import DEFAULT_RANK, Wanted
from runtime.control.log_search.scan import Block
from runtime.control.log_search.text import readable
from runtime.control.manifest import Manifest, Part, frames_key, trigrams_key, unpack_frames
from runtime.control.run_source import Entry, SourceUnavailableError

_MAX_SIDECAR = 256 << 20
_NUM_FRAMES = 16
_NUM_LISTS = 64


@dataclass(frozen=True, slots=True)
class _Place:
    """A part and where it begins in its file."""

    part: Part
    offset: int
    first_rank: int


class CapturedSource:
    """The captured files of one run."""

    def __init__(self, store: ArtifactStore, manifest: Manifest) -> None:
        """Read what this manifest lists."""
        self.manifest = manifest
        self.store = store
        self._frames: Callable[[str], tuple[Frame, ...]] = lru_cache(_NUM_LISTS)(self._load_frames)
        self._bitmaps: Callable[[str], bytes] = lru_cache(_NUM_LISTS)(self._load_bitmaps)
        self._text: Callable[[str, int, int], bytes] = lru_cache(_NUM_FRAMES)(self._load_text)

    def entries(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name; nothing where there is no such folder."""
        prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
        found: dict[str, Entry] = {}
        for path, file in self.manifest.files.items():
            if not path.startswith(prefix):
                continue
            name, _, below = path[len(prefix) :].partition("/")
            size, mtime = (0, file.mtime) if below else (file.size, file.mtime)
            if below and name in found:
                mtime = max(mtime, found[name].mtime)
            found[name] = Entry(name=name, size=size, mtime=mtime, is_dir=bool(below))
        return [found[name] for name in sorted(found)]

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is no such file."""
        file = self.manifest.files.get(path)
        return None if file is None else file.num_kept

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, less than asked for only at its end; nothing without a file."""
        data = bytearray()
        for place in self._places(path):
            first = max(offset, place.offset)
            last = min(offset + size, place.offset + place.part.size)
            if first < last:
                piece = self._piece(place, first, last)
                if len(piece) != last - first:
                    raise _damaged(place.part.key)
                data += piece
        return bytes(data)

    def url(self, path: str) -> str:
        """Return where a file or folder lies, for people."""
        return self.store.url(f"{self.manifest.run_id}/files/{path}")

    def blocks(self, path: str, start: int, wanted: Wanted) -> Iterator[Block]:
        """Yield the blocks of a log that may hold wanted lines, from its end back to `start`."""
        for place in reversed(self._places(path)):
            if place.offset + place.part.size <= start:
                return
            frames = self._frames_of(place)
            bitmaps = self._bitmaps(place.part.key) if place.part.has_trigrams else b""
            load = partial(self._frame_text, place.part.key)
            for block in frame_blocks(list(frames), wanted, bitmaps, load):
                if block.offset >= start:
                    yield block
                elif block.offset + len(block.load()) > start:
                    yield _cut(block, start)

    def _places(self, path: str) -> list[_Place]:
        file = self.manifest.files.get(path)
        found, offset, rank = [], 0, DEFAULT_RANK
        for part in file.parts if file is not None else ():
            found.append(_Place(part, offset, rank))
            offset, rank = offset + part.size, part.last_rank
        return found

    def _piece(self, place: _Place, first: int, last: int) -> bytes:
        if place.part.num_frames == 0:
            with _asking():
                return self.store.read(place.part.key, first - place.offset, last - first)
        data = bytearray()
        for frame in self._frames_of(place):
            begin, end = max(first, frame.offset), min(last, frame.offset + frame.size)
            if begin < end:
                text = self._frame_text(place.part.key, frame)
                data += text[begin - frame.offset : end - frame.offset]
        return bytes(data)

    def _frames_of(self, place: _Place) -> tuple[Frame, ...]:
        part = place.part
        if part.num_frames > 1:
            return self._frames(part.key)
        frame = Frame(
            offset=place.offset,
            size=part.size,
            stored_offset=0,
            stored_size=part.stored_size,
            first_rank=place.first_rank,
        )
        return (frame,)

    def _frame_text(self, key: str, frame: Frame) -> bytes:
        return self._text(key, frame.stored_offset, frame.stored_size)

    def _load_text(self, key: str, offset: int, size: int) -> bytes:
        with _asking():
            data = self.store.read(key, offset, size)
        try:
            return decompress(data)
        except zstandard.ZstdError:
            raise _damaged(key) from None

    def _load_frames(self, key: str) -> tuple[Frame, ...]:
        part = Part(key=key, size=0, sha256="", stored_size=0)
        try:
            with _asking():
                return unpack_frames(self.store.read(frames_key(part), 0, _MAX_SIDECAR))
        except (zstandard.ZstdError, ValueError):
            raise _damaged(key) from None

    def _load_bitmaps(self, key: str) -> bytes:
        part = Part(key=key, size=0, sha256="", stored_size=0)
        try:
            with _asking():
                return decompress(self.store.read(trigrams_key(part), 0, _MAX_SIDECAR))
        except zstandard.ZstdError:
            return b""  # then every frame is searched


def _cut(block: Block, start: int) -> Block:
    """Return the rest of a block from an offset of the file on."""
    raw = block.load()
    before = readable(raw[: start - block.offset])
    return Block(
        offset=start,
        load=lambda: raw[start - block.offset :],
        carried=lambda: rank_at_end(before, block.carried()),
    )


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except ArtifactStoreError as error:
        raise SourceUnavailableError(str(error)) from None


def _damaged(key: str) -> SourceUnavailableError:
    return SourceUnavailableError(f"captured object {key} is damaged or gone")
