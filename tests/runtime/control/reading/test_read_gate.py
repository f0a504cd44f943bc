"""A cluster that hangs holds a few requests of the API, and none of other clusters."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.control.artifact_store import DirectoryStore
from runtime.control.capture import capture_run
from runtime.control.cluster_source import ClusterReach
from runtime.control.errors_http import BusyError
from runtime.control.readings import Usage
from runtime.control.requests import StepRange
from runtime.control.run_reads import read_gate
from runtime.control.run_reads.read_gate import NUM_AT_ONCE
from runtime.control.run_reads.reads import RunReads
from runtime.control.run_source import FolderSource, RunSource, SourceUnavailableError
from runtime.control.run_sources import RunSources
from runtime.control.values import StoredRun
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.states import Capture
from tests.runtime.control.reading.clusters import OneCluster
from tests.runtime.control.reading.run_files import profile, run_directory, stored_run, write_run
from tests.waiting import wait_for

WAIT_S = 60.0


class PodClusters(OneCluster):
    """Knows clusters of pods by name."""

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return their profiles."""
        found = {}
        for name in ("east", "west", "north", "south"):
            connection = KubernetesConnection(context=name, namespace="lab")
            update = {"name": name, "connection": connection}
            found[name] = profile(self.path).model_copy(update=update)
        return found


class HangingSources(RunSources):
    """The files of runs, whose cluster answers once it is let go."""

    def __init__(self, path: Path) -> None:
        """Let nothing go."""
        super().__init__(PodClusters(path), DirectoryStore(path / "artifacts"))
        self.path = path
        self.go = threading.Event()
        self.num_waiting = 0
        self._count = threading.Lock()

    def live(self, run: StoredRun) -> RunSource | None:
        """Hang on a cluster, unless it is west."""
        if run.cluster != "west":
            with self._count:
                self.num_waiting += 1
            assert self.go.wait(WAIT_S)
        return FolderSource(run_directory(self.path).path)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HangingSources:
    """Return the sources of a run whose files are there, for readers who do not wait."""
    monkeypatch.setattr(read_gate, "WAIT_S", 0.0)
    write_run(tmp_path)
    return HangingSources(tmp_path)


def on(path: Path, cluster: str) -> StoredRun:
    return replace(stored_run(path), cluster=cluster)


def reads_of(sources: RunSources) -> RunReads:
    return RunReads(sources, lambda run: Usage(cost_microusd=7))


def test_what_a_hanging_cluster_cannot_take_is_told_at_once(
    tmp_path: Path, sources: HangingSources
) -> None:
    reads, east, west = reads_of(sources), on(tmp_path, "east"), on(tmp_path, "west")
    with ThreadPoolExecutor(NUM_AT_ONCE) as pool:
        held = [pool.submit(reads.metrics, east, StepRange()) for _ in range(NUM_AT_ONCE)]
        wait_for(lambda: sources.num_waiting == NUM_AT_ONCE)

        for read in (reads.progress, reads.checkpoints, reads.components):
            with pytest.raises(BusyError, match=r"cluster east .* try again in 5 s"):
                read(east)
        assert reads.progress(west).latest_step == 3
        assert reads.usage(east).cost_microusd == 7  # it is known without the files
        sources.go.set()
        assert all(one.result(WAIT_S) for one in held)

    assert reads.progress(east).latest_step == 3


def test_a_reader_waits_a_moment_for_those_before_and_only_a_few_do(
    tmp_path: Path, sources: HangingSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_gate, "WAIT_S", WAIT_S)
    monkeypatch.setattr(read_gate, "NUM_AT_ONCE", 1)
    monkeypatch.setattr(read_gate, "NUM_WAITING", 1)
    reads, east = reads_of(sources), on(tmp_path, "east")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(reads.progress, east)
        wait_for(lambda: sources.num_waiting == 1)
        second = pool.submit(reads.progress, east)
        wait_for(lambda: reads._gate._num_waiting == 1)

        with pytest.raises(BusyError):
            reads.progress(east)
        sources.go.set()
        assert [one.result(WAIT_S).latest_step for one in (first, second)] == [3, 3]


def test_many_hanging_clusters_leave_threads_to_the_rest(
    tmp_path: Path, sources: HangingSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_gate, "NUM_IN_ALL", 2)
    reads = reads_of(sources)
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(reads.progress, on(tmp_path, one)) for one in ("east", "north")]
        wait_for(lambda: sources.num_waiting == 2)

        with pytest.raises(BusyError):
            reads.progress(on(tmp_path, "south"))
        sources.go.set()
        assert all(one.result(WAIT_S).latest_step for one in held)


def test_captures_and_what_was_captured_pass_no_gate(
    tmp_path: Path, sources: HangingSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_gate, "NUM_AT_ONCE", 0)
    run, reads = on(tmp_path, "west"), reads_of(sources)
    with pytest.raises(BusyError):
        reads.progress(run)

    source = sources.live(run)
    assert source is not None
    assert sources.artifacts is not None
    result = capture_run(run, source, sources.artifacts)

    assert result.capture is Capture.DONE
    assert reads.progress(replace(run, capture=Capture.DONE)).latest_step == 3


def test_pods_of_a_cluster_that_is_away_are_not_asked_for_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AwayApi:
        namespace = "lab"
        num_asked = 0

        def list(self, kind: str, *, labels: object) -> list[object]:
            self.num_asked += 1
            raise KubernetesError("nothing within 15 s")

    api = AwayApi()
    asked = cast("KubernetesApi", api)  # as much of one as is asked
    reach = ClusterReach(api=asked, files=RunFiles(asked), do=lambda task: {})
    monkeypatch.setattr("runtime.control.cluster_source.open_reach", lambda *_: reach)
    reads = reads_of(RunSources(PodClusters(tmp_path), None))

    with pytest.raises(SourceUnavailableError):
        reads.components(on(tmp_path, "east"))

    assert api.num_asked == 1
