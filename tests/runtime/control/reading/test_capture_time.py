"""How long a capture may take: as long as it goes on, and not for ever."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.control import capture, run_captures
from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import CaptureOptions, capture_run
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_source import Entry, FolderSource, RunSource, SourceUnavailableError
from runtime.control.run_sources import RunSources
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import OneCluster
from tests.runtime.control.reading.run_files import stored_run, write_run
from tests.waiting import wait_for

READ_S = 600.0
OPTIONS = CaptureOptions(limit_s=900.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the time of captures, which stands still unless a test moves it."""
    now = SimpleNamespace(s=1000.0)
    for module in (capture, run_captures):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.s))
    monkeypatch.setattr(capture, "_RETRY_S", (0.0,))
    return now


class SlowSource(FolderSource):
    """A run directory that takes ten minutes to read each file; `is_growing` while a run writes."""

    def __init__(self, path: Path, clock: SimpleNamespace, *, is_growing: bool = False) -> None:
        """Move this clock."""
        super().__init__(path)
        self._clock = clock
        self._is_growing = is_growing

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Return a part of a file, late."""
        self._clock.s += READ_S
        return super().read(path, offset, size)

    def entries(self, folder: str) -> list[Entry]:
        """Return what is there; what grows is younger at each look."""
        found = super().entries(folder)
        return [replace(one, mtime=self._clock.s) for one in found] if self._is_growing else found


def test_a_capture_that_goes_on_takes_as_long_as_it_needs(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    source = SlowSource(write_run(tmp_path).path, clock)
    run = stored_run(tmp_path, RunState.COMPLETED)

    result = capture_run(run, source, DirectoryStore(tmp_path / "artifacts"), OPTIONS)

    assert (result.capture, result.reason) == (Capture.DONE, "")
    assert clock.s > 1000.0 + 10 * READ_S


def test_files_that_always_change_do_not_keep_a_capture_going(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    source = SlowSource(write_run(tmp_path).path, clock, is_growing=True)
    run = stored_run(tmp_path, RunState.COMPLETED)

    result = capture_run(run, source, DirectoryStore(tmp_path / "artifacts"), OPTIONS)

    assert result.capture is Capture.INCOMPLETE


class HeldSource(FolderSource):
    """A run directory of which a file is read for each turn that a test gives."""

    def __init__(self, path: Path) -> None:
        """Begin without a turn."""
        super().__init__(path)
        self.turns = threading.Semaphore(0)
        self.is_asked = False

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Wait for a turn."""
        self.is_asked = True
        assert self.turns.acquire(timeout=60)
        return super().read(path, offset, size)


class GivenSources(RunSources):
    """The sources of a cluster, one a run."""

    def __init__(self, path: Path, sources: Mapping[str, RunSource]) -> None:
        """Give each run its source."""
        super().__init__(OneCluster(path), DirectoryStore(path / "artifacts"))
        self._given = sources

    def live(self, run: StoredRun) -> RunSource | None:
        """Return it."""
        return self._given[run.run_id]


def test_a_capture_says_for_how_long_nothing_was_kept_and_who_waits_is_no_idler(
    tmp_path: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_captures, "NUM_AT_ONCE", 1)
    path = write_run(tmp_path).path
    source, other = HeldSource(path), HeldSource(path)
    first = stored_run(tmp_path, RunState.COMPLETED)
    second = replace(first, run_id="run-2")
    capturer = StoreCapturer(GivenSources(tmp_path, {first.run_id: source, "run-2": other}))

    def idle(run: StoredRun) -> float | None:
        return capturer.capture(run).idle_s

    try:
        assert (idle(first), idle(second)) == (0.0, 0.0)
        wait_for(lambda: source.is_asked)
        clock.s += 800.0
        assert (idle(first), idle(second)) == (800.0, 800.0)
        source.turns.release()
        wait_for(lambda: idle(first) == 0.0)
        wait_for(lambda: capturer.capture(first).has_kept)
        assert not capturer.capture(second).had_turn
        clock.s += 200.0
        assert (idle(first), idle(second)) == (200.0, 200.0)
        clock.s += 100.0
        source.turns.release(1000)
        wait_for(lambda: other.is_asked)
        assert idle(second) == 0.0  # its own time begins with its turn
        clock.s += 100.0
        assert idle(second) == 100.0
    finally:
        source.turns.release(1000)
        other.turns.release(1000)
        capturer.close()


def test_what_was_kept_whole_is_nothing_more_even_if_it_has_changed(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    written = write_run(tmp_path)
    store = DirectoryStore(tmp_path / "artifacts")
    run = stored_run(tmp_path, RunState.COMPLETED)

    def times_kept() -> int:
        kept: list[float] = []
        options = replace(OPTIONS, kept=lambda: kept.append(clock.s))
        result = capture_run(run, FolderSource(written.path), store, options)
        assert result.capture is Capture.DONE
        return len(kept)

    assert times_kept() > 0
    with next((written.path / "logs").rglob("*.log")).open("a") as log:
        log.write("one more line\n")
    assert times_kept() == 0


class AwaySource(FolderSource):
    """A run directory that cannot be read."""

    def entries(self, folder: str) -> list[Entry]:
        """Fail."""
        raise SourceUnavailableError("the file server is away")


def test_a_capture_that_was_given_up_leaves_its_turn_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_captures, "NUM_AT_ONCE", 1)
    other = HeldSource(write_run(tmp_path).path)
    first = stored_run(tmp_path, RunState.COMPLETED)
    second, third = replace(first, run_id="run-2"), replace(first, run_id="run-3")
    away = AwaySource(tmp_path)
    given = {first.run_id: away, second.run_id: away, third.run_id: other}
    capturer = StoreCapturer(GivenSources(tmp_path, given))

    try:
        for run in (first, second, third):
            capturer.capture(run)
        capturer.forget(second)
        capturer.forget(first)
        wait_for(lambda: other.is_asked)
    finally:
        other.turns.release(1000)
        capturer.close()


class PodSources(GivenSources):
    """The sources of runs whose files are away, while their pods still know something."""

    def live(self, run: StoredRun) -> RunSource | None:
        """Return what has nothing."""
        return FolderSource(Path("/nowhere"))

    def pod_logs(self, run: StoredRun) -> RunSource | None:
        """Return what the pods know."""
        return self._given[run.run_id]


def test_what_is_kept_of_pods_counts_or_a_teardown_would_take_them(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    pods = HeldSource(write_run(tmp_path).path)
    run = stored_run(tmp_path, RunState.COMPLETED)
    capturer = StoreCapturer(PodSources(tmp_path, {run.run_id: pods}), limit_s=0.0)

    try:
        capturer.capture(run)
        wait_for(lambda: pods.is_asked)
        clock.s += 50.0
        assert capturer.capture(run).idle_s == 50.0
        pods.turns.release()
        wait_for(lambda: capturer.capture(run).idle_s == 0.0)
    finally:
        pods.turns.release(1000)
        capturer.close()


class LeakySource(SlowSource):
    """A run directory into which something goes on writing new files while it is read."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Write one more file at each read."""
        (self._path / "logs" / f"late-{self._clock.s:.0f}.log").write_text("still here\n")
        return super().read(path, offset, size)


def test_files_that_come_later_do_not_keep_a_capture_going(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    source = LeakySource(write_run(tmp_path).path, clock)
    run = stored_run(tmp_path, RunState.COMPLETED)

    result = capture_run(run, source, DirectoryStore(tmp_path / "artifacts"), OPTIONS)

    assert result.capture is Capture.INCOMPLETE
