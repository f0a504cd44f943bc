"""Capture: the logs and the run directory of an ended run into the artifact store, before teardown.

May be interrupted anywhere and asked for again: what is in the manifest is not done twice, what is
not is done anew under the same keys. It is `done` only when every file has been read back from the
store and compared. Called by the reconciler in a thread of its own; once it has kept nothing more
for its limit, the teardown goes on with what there is.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runtime.control.artifact_store import ArtifactStore, ArtifactStoreError
from runtime.control.captures import CAPTURE_LIMIT_S
from runtime.control.log_search.patterns import DEFAULT_RANK
from runtime.control.manifest import (
    CapturedCheckpoint,
    CapturedFile,
    Manifest,
    Part,
    frames_key,
    manifest_key,
    read_manifest,
    trigrams_key,
    write_manifest,
)
from runtime.control.run_capture.chosen_files import (
    CHECKPOINTS_FOLDER,
    Checkpoints,
    ChosenFile,
    TooManyFilesError,
    chosen_files,
    found_checkpoints,
    is_log,
)
from runtime.control.run_capture.parts import FileChangedError, Slice, write_part
from runtime.control.run_source import RunSource, SourceUnavailableError
from runtime.control.values import StoredRun
from runtime.states import Capture

_LOG = logging.getLogger(__name__)
_SAVE_S = 5.0
_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_MAX_ROUNDS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureOptions:
    """What is captured, and how long it may go on without keeping anything more.

    `stop` is set when it has to end: the capture returns at once, to be asked for again. `moved`
    is called whenever more of a file has been kept, or found to be; not for a file that was kept
    whole before and has changed, or came later, which might go on for ever; `kept` when such more
    stands in the manifest, which did not before. The files of a `partial` source are not all of the
    run's, whose capture is INCOMPLETE for that.
    """

    limit_s: float = CAPTURE_LIMIT_S
    checkpoints: Checkpoints = "last"
    stop: threading.Event = field(default_factory=threading.Event)
    moved: Callable[[], None] = lambda: None
    kept: Callable[[], None] = lambda: None
    partial: str = ""
    """Why the source does not have everything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureResult:
    """How a capture ended: DONE, INCOMPLETE with the reason, or RUNNING where it was stopped."""

    capture: Capture
    reason: str = ""
    num_files: int = 0
    num_bytes: int = 0


class _EndedError(Exception):
    """The time is over, or the server ends."""


def capture_run(
    run: StoredRun,
    source: RunSource,
    store: ArtifactStore,
    options: CaptureOptions | None = None,
) -> CaptureResult:
    """Capture a run whose workloads have ended; a source or store that fails is tried again."""
    job = _Job(run, source, store, options or CaptureOptions())
    num_failed = 0
    while True:
        try:
            job.capture()
            if job.options.partial:
                return job.result(Capture.INCOMPLETE, job.options.partial)
            return job.result(Capture.DONE)
        except _EndedError:
            if job.options.stop.is_set():
                return job.result(Capture.RUNNING, "interrupted")
            return job.result(Capture.INCOMPLETE, job.trouble or "nothing more was kept")
        except TooManyFilesError as error:
            return job.result(Capture.INCOMPLETE, str(error))
        except (SourceUnavailableError, ArtifactStoreError, FileChangedError) as error:
            job.trouble = str(error)
            _LOG.warning("capture of %s: %s", run.run_id, error, extra={"run": run.run_id})
        wait_s = _RETRY_S[min(num_failed, len(_RETRY_S) - 1)]
        num_failed += 1
        job.options.stop.wait(max(0.0, min(wait_s, job.ends_at - time.monotonic())))


class _Job:
    """One call of `capture_run`: the manifest as it grows."""

    def __init__(
        self, run: StoredRun, source: RunSource, store: ArtifactStore, options: CaptureOptions
    ) -> None:
        self.options = options
        self.ends_at = time.monotonic() + options.limit_s
        self.trouble = ""
        self._run = run
        self._source = source
        self._store = store
        self._manifest: Manifest | None = None
        self._files: dict[str, CapturedFile] = {}
        self._trusted: set[str] = set()
        self._at_first: set[str] | None = None
        self._kept_once: set[str] = set()
        self._whole_before: set[str] = set()
        self._has_more = False
        self._saved_at = 0.0

    def capture(self) -> None:
        """Capture everything that is not captured yet, until nothing changes any more."""
        self._check_time()
        self._load()
        written: list[str] = []
        for _ in range(_MAX_ROUNDS):
            wanted = chosen_files(self._source, checkpoints=self.options.checkpoints)
            if self._at_first is None:
                self._at_first = {one.path for one in wanted}
            written = [one.path for one in wanted if self._capture_file(one)]
            if not written:
                self._finish({one.path for one in wanted})
                return
        raise FileChangedError(f"{written[0]} still changes: does something of the run live?")

    def result(self, capture: Capture, reason: str = "") -> CaptureResult:
        """Return how it ended."""
        return CaptureResult(
            capture=capture,
            reason=reason,
            num_files=len(self._files),
            num_bytes=sum(file.num_kept for file in self._files.values()),
        )

    def _load(self) -> None:
        if self._manifest is not None:
            return
        found = read_manifest(self._store, self._run.run_id)
        self._manifest = found or Manifest(
            run_id=self._run.run_id, attempt=self._run.attempt, captured_at=datetime.now(UTC)
        )
        self._files = dict(self._manifest.files)
        self._whole_before = {path for path, one in self._files.items() if one.num_kept == one.size}

    def _capture_file(self, wanted: ChosenFile) -> bool:
        """Bring one file up to date in the manifest; tell whether anything was to be done."""
        size = self._source.size(wanted.path)
        if size is None:  # gone, or a link that leads out of the run directory or to a folder
            return False
        known = self._files.get(wanted.path)
        is_same = known is not None and (known.size, known.mtime) == (size, wanted.mtime)
        file = known if known and is_same else CapturedFile(size=size, mtime=wanted.mtime)
        file = self._with_sound_parts(wanted.path, file)
        if file.num_kept == size:
            self._files[wanted.path] = file
            self._move(wanted.path)
            self._kept_once.add(wanted.path)
            return not is_same
        while file.num_kept < size:
            self._check_time()
            part = write_part(self._source, self._store, self._slice(wanted.path, file))
            file = file.model_copy(update={"parts": (*file.parts, part)})
            self._files[wanted.path] = file
            self._trusted.add(part.key)
            self._move(wanted.path, is_more=wanted.path not in self._whole_before)
            if time.monotonic() - self._saved_at >= _SAVE_S:
                self._save(is_complete=False)
        self._kept_once.add(wanted.path)
        return True

    def _move(self, path: str, *, is_more: bool = False) -> None:
        """Begin the time anew for more of a file that was there at first, until it is kept whole.

        What something of the run that still lives goes on writing holds up no teardown.
        """
        if path in (self._at_first or ()) and path not in self._kept_once:
            self.ends_at = time.monotonic() + self.options.limit_s
            self.options.moved()
            self._has_more |= is_more

    def _slice(self, path: str, file: CapturedFile) -> Slice:
        rank = file.parts[-1].last_rank if file.parts else DEFAULT_RANK
        return Slice(
            run_id=self._run.run_id,
            path=path,
            size=file.size,
            offset=file.num_kept,
            number=len(file.parts),
            first_rank=rank if is_log(path) else DEFAULT_RANK,
            check_time=self._check_time,
        )

    def _with_sound_parts(self, path: str, file: CapturedFile) -> CapturedFile:
        """Return a file with the parts of an earlier call that are still in the store."""
        sound: list[Part] = []
        for part in file.parts:
            if part.key not in self._trusted and not self._is_there(part):
                break
            self._trusted.add(part.key)
            sound.append(part)
        if len(sound) < len(file.parts):
            run_id = self._run.run_id
            _LOG.warning("capture of %s: parts of %s are gone", run_id, path, extra={"run": run_id})
            return file.model_copy(update={"parts": tuple(sound)})
        return file

    def _is_there(self, part: Part) -> bool:
        return self._store.size(part.key) == part.stored_size and all(
            self._store.size(key) is not None for key in _sidecars(part)
        )

    def _finish(self, wanted: set[str]) -> None:
        """Write the complete manifest, then remove what it does not name.

        What was captured of an earlier attempt stays, though it is gone from the run directory; of
        checkpoints there are as many as are wanted.
        """
        if self._run.started_at is not None and not any(map(is_log, self._files)):
            raise SourceUnavailableError("the run directory has no log, though the run has run")
        for path in self._files.keys() - wanted:
            if path.startswith(CHECKPOINTS_FOLDER) and wanted:
                del self._files[path]
        self._save(is_complete=not self.options.partial)
        if self.options.partial:
            return  # what is in the store may be more than this source has
        named = {manifest_key(self._run.run_id)}
        for file in self._files.values():
            for part in file.parts:
                named |= {part.key, *_sidecars(part)}
        for key in self._store.keys(self._run.run_id):
            if key not in named:
                self._store.delete(key)

    def _save(self, *, is_complete: bool) -> None:
        checkpoints = self._checkpoints() if is_complete else ()
        manifest = Manifest(
            run_id=self._run.run_id,
            attempt=self._run.attempt,
            is_complete=is_complete,
            captured_at=datetime.now(UTC),
            files=self._files,
            checkpoints=checkpoints,
        )
        write_manifest(self._store, manifest)
        self._manifest = manifest
        self._saved_at = time.monotonic()
        if self._has_more:
            self.options.kept()

    def _checkpoints(self) -> tuple[CapturedCheckpoint, ...]:
        kept = {path.rpartition("/")[0] for path in self._files}
        found = []
        for one in found_checkpoints(self._source):
            is_kept = any(
                folder == one.path or folder.startswith(f"{one.path}/") for folder in kept
            )
            place = f"{self._run.run_id}/files/{one.path}"
            found.append(
                CapturedCheckpoint(
                    step=one.step,
                    size=one.size,
                    mtime=one.mtime,
                    is_kept=is_kept,
                    url=self._store.url(place) if is_kept else self._source.url(one.path),
                )
            )
        return tuple(found)

    def _check_time(self) -> None:
        if self.options.stop.is_set() or time.monotonic() >= self.ends_at:
            raise _EndedError


def _sidecars(part: Part) -> list[str]:
    found = [frames_key(part)] if part.num_frames > 1 else []
    return [*found, trigrams_key(part)] if part.has_trigrams else found
