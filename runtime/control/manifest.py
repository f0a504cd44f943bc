"""Manifest: what has been captured of a run, file by file, and where it lies in the store.

Written again and again while a capture goes on, so that an interrupted one goes on where it was;
`is_complete` comes last. Text is kept in zstd frames (`runtime.control.log_search.frames`), the
rest as it is.
"""

from pydantic import AwareDatetime, BaseModel, ConfigDict, TypeAdapter, ValidationError

from runtime.control.artifact_store import ArtifactStore, ArtifactStoreError
from runtime.control.log_search.frames import Frame, compress, decompress
from runtime.control.log_search.patterns import DEFAULT_RANK

_MAX_BYTES = 1 << 30
_FRAMES = TypeAdapter(tuple[Frame, ...])


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Part(_Stored):
    """A part of a file, one object of the store."""

    key: str
    """Key of the object."""
    size: int
    """Bytes of the file that it holds."""
    sha256: str
    """Of these bytes; checked after the object was written."""
    stored_size: int
    """Size of the object."""
    num_frames: int = 0
    """Frames of zstd in the object, 0 for one that is the file's bytes; several are listed in the
    object at `<key>.frames`."""
    has_trigrams: bool = False
    """Whether the object at `<key>.trigrams` says which frames may hold a text."""
    last_rank: int = DEFAULT_RANK
    """The level that the next part's first line inherits."""


class CapturedFile(_Stored):
    """One file; `mtime` is what the source said, in seconds."""

    size: int
    mtime: float
    parts: tuple[Part, ...] = ()

    @property
    def num_kept(self) -> int:
        """Return how many bytes of the file the parts hold."""
        return sum(part.size for part in self.parts)


class CapturedCheckpoint(_Stored):
    """A checkpoint of the run when it was captured."""

    step: int
    size: int
    mtime: float
    is_kept: bool
    """Whether its files were captured; one that was not is on the run volume only."""
    url: str
    """Where it lies."""


class Manifest(_Stored):
    """All that was captured of a run."""

    run_id: str
    attempt: int
    is_complete: bool = False
    captured_at: AwareDatetime
    files: dict[str, CapturedFile] = {}
    checkpoints: tuple[CapturedCheckpoint, ...] = ()


def manifest_key(run_id: str) -> str:
    """Return the key of a run's manifest."""
    return f"{run_id}/manifest.json"


def read_manifest(store: ArtifactStore, run_id: str) -> Manifest | None:
    """Return a run's manifest, None where nothing was captured; a damaged one is as good as none.

    Raises ArtifactStoreError.
    """
    data = store.read(manifest_key(run_id), 0, _MAX_BYTES)
    try:
        return Manifest.model_validate_json(data) if data else None
    except ValidationError:
        return None


def write_manifest(store: ArtifactStore, manifest: Manifest) -> None:
    """Write a run's manifest; raises ArtifactStoreError where it does not read back the same."""
    data = manifest.model_dump_json().encode()
    key = manifest_key(manifest.run_id)
    store.put(key, [data])
    if store.read(key, 0, len(data) + 1) != data:
        raise ArtifactStoreError(f"{store.url(key)} does not read back as it was written")


def frames_key(part: Part) -> str:
    """Return the key of the list of a part's frames."""
    return f"{part.key}.frames"


def trigrams_key(part: Part) -> str:
    """Return the key of the bitmaps of a part's frames."""
    return f"{part.key}.trigrams"


def pack_frames(frames: list[Frame]) -> bytes:
    """Return the list of a part's frames as it is stored."""
    return compress(_FRAMES.dump_json(tuple(frames)))


def unpack_frames(data: bytes) -> tuple[Frame, ...]:
    """Return the list that `pack_frames` made."""
    return _FRAMES.validate_json(decompress(data))
