"""StoreCapturer: `captures.Capturer` over the artifact store; a few captures at a time, in threads.

What a capture does is `runtime.control.capture`. One that a server's end interrupts goes on in the
next server that is asked for it.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

from runtime.control.artifact_store import (
    ArtifactRefusedError,
    ArtifactStore,
    ArtifactStoreError,
    check_artifact_store,
)
from runtime.control.capture import CaptureOptions, CaptureResult, capture_run
from runtime.control.captures import CAPTURE_LIMIT_S, CaptureReport, CaptureState
from runtime.control.manifest import read_manifest
from runtime.control.run_capture.chosen_files import Checkpoints
from runtime.control.run_sources import RunSources
from runtime.control.values import StoredRun
from runtime.errors import PaddockError
from runtime.states import Capture

NUM_AT_ONCE = 4

_NUM_KEPT = 1000
_POD_LOGS_S = 60.0
_GOING = CaptureReport(state=CaptureState.RUNNING)

_Key = tuple[str, int]
_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class _Going:
    """A run's capture in this server; its time begins with its first turn."""

    moved_at: float
    had_turn: bool = False
    has_kept: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    begun: Future[CaptureReport] | None = None


class StoreCapturer:
    """Captures runs into the store of its sources; safe to use from several threads."""

    def __init__(
        self,
        sources: RunSources,
        *,
        checkpoints: Checkpoints = "last",
        limit_s: float = CAPTURE_LIMIT_S - _POD_LOGS_S,
    ) -> None:
        """Capture into the store of these sources, which must have one; nothing begins yet.

        Raises ArtifactRefusedError for a store that would let nothing be written to it.
        """
        assert sources.artifacts is not None, "a capture needs a store"
        _check(sources.artifacts)
        self._sources = sources
        self._artifacts: ArtifactStore = sources.artifacts
        self._options = CaptureOptions(limit_s=limit_s, checkpoints=checkpoints)
        self._pool = ThreadPoolExecutor(NUM_AT_ONCE, thread_name_prefix="capture")
        self._going: dict[_Key, _Going] = {}
        self._any_moved_at = 0.0
        self._is_closed = False
        self._lock = threading.Lock()

    def capture(self, run: StoredRun) -> CaptureReport:
        """Begin to capture a run, or say how far it is."""
        with self._lock:
            new = _Going(moved_at=time.monotonic())
            going = self._going.setdefault((run.run_id, run.attempt), new)
            said = _said(going.begun)
            if said.state is not CaptureState.RUNNING:
                return said
            is_at_it = going.begun is not None and not going.begun.done()
            if not is_at_it and not self._is_closed:
                going.begun = self._pool.submit(self._capture, run, going)
                self._forget_old()
            return replace(
                said,
                idle_s=self._idle_s(going),
                had_turn=going.had_turn,
                has_kept=going.has_kept,
            )

    def forget(self, run: StoredRun) -> None:
        """Stop the capture of a run that is not asked for any more; others take its turn."""
        with self._lock:
            going = self._going.pop((run.run_id, run.attempt), None)
            self._any_moved_at = time.monotonic()
            if going is not None:
                going.stop.set()
                if going.begun is not None:
                    going.begun.cancel()

    def close(self) -> None:
        """Interrupt what is captured now and wait for it to let go."""
        with self._lock:
            self._is_closed = True
            for going in self._going.values():
                going.stop.set()
        self._pool.shutdown(cancel_futures=True)

    def _capture(self, run: StoredRun, going: _Going) -> CaptureReport:
        with self._lock:
            if not going.had_turn:
                going.had_turn = True
                going.moved_at = time.monotonic()
        try:
            source = self._sources.live(run)
            if source is None:
                # its cluster is not known to this server now, and may be at the next look
                return _GOING
            options = replace(
                self._options,
                stop=going.stop,
                moved=partial(self._move, going),
                kept=partial(setattr, going, "has_kept", True),
            )
            result = capture_run(run, source, self._artifacts, options)
            if result.capture is Capture.INCOMPLETE:
                result = self._with_pod_logs(run, options, result)
        except PaddockError as error:  # a context that is away for now: the next look begins again
            return CaptureReport(state=CaptureState.RUNNING, message=str(error))
        except Exception:  # the boundary of a thread: the teardown must not wait for a bug
            _LOG.exception("capture of %s", run.run_id, extra={"run": run.run_id})
            return CaptureReport(state=CaptureState.FAILED, message="an error of the server")
        said = run.run_id, result.capture, result.reason
        _LOG.info("capture of %s: %s %s", *said, extra={"run": run.run_id})
        return _report(result)

    def _idle_s(self, going: _Going) -> float:
        """Return how long nothing more of a run was kept, since it had its first turn.

        A run that waits for its turn is idle for no longer than the captures that it waits for.
        """
        since = going.moved_at
        return time.monotonic() - (since if going.had_turn else max(since, self._any_moved_at))

    def _move(self, going: _Going) -> None:
        with self._lock:
            going.moved_at = self._any_moved_at = time.monotonic()

    def _with_pod_logs(
        self, run: StoredRun, options: CaptureOptions, before: CaptureResult
    ) -> CaptureResult:
        """Save what the pods of a run still know, where its files could not be read."""
        source = self._sources.pod_logs(run)
        if source is None or self._has_logs(run):
            return before
        options.moved()  # or the teardown would begin, and take the pods
        why = f"only the logs of its pods: {before.reason}"
        options = replace(options, limit_s=_POD_LOGS_S, partial=why)
        return capture_run(run, source, self._artifacts, options)

    def _has_logs(self, run: StoredRun) -> bool:
        manifest = read_manifest(self._artifacts, run.run_id)
        folder = f"logs/attempt_{run.attempt}/"
        return manifest is not None and any(path.startswith(folder) for path in manifest.files)

    def _forget_old(self) -> None:
        """Forget captures that ended here and that another server was asked for at last."""
        ended = [key for key, one in self._going.items() if one.begun and one.begun.done()]
        for key in ended[: max(0, len(ended) - _NUM_KEPT)]:
            del self._going[key]


def _check(store: ArtifactStore) -> None:
    try:
        check_artifact_store(store, f"server-{uuid4().hex}")
    except ArtifactRefusedError:
        raise
    except ArtifactStoreError as error:  # it may be back before anything is captured
        _LOG.error("the artifact store does not answer: %s", error)


def _said(begun: Future[CaptureReport] | None) -> CaptureReport:
    """Return what a capture said last: nothing before its first end, or when it was called off."""
    if begun is None or not begun.done() or begun.cancelled():
        return _GOING
    return begun.result()


def _report(result: CaptureResult) -> CaptureReport:
    if result.capture is Capture.RUNNING:
        return _GOING
    if result.capture is Capture.INCOMPLETE:
        return CaptureReport(state=CaptureState.FAILED, message=result.reason)
    words = f"{result.num_files} files, {result.num_bytes} bytes"
    return CaptureReport(state=CaptureState.DONE, message=words)
