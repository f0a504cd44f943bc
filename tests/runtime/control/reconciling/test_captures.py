"""The capture comes before the teardown, for a bounded time."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runtime.cluster import KubernetesConnection
from runtime.control.artifact_store import DirectoryStore
from runtime.control.captures import CaptureReport, CaptureState
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.operations import OperationKind
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_sources import RunSources
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.operating.dispatching import GivenClusters
from tests.runtime.control.reading.run_files import profile
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator, FakePlaces
from tests.runtime.control.reconciling.site import Site, make_site

GOING = CaptureReport(state=CaptureState.RUNNING, message="3 of 9 files")
BEGUN = replace(GOING, idle_s=0.0, had_turn=True)


@dataclass
class SlowCapture:
    """Captures until it is told how that ended."""

    report: CaptureReport
    forgotten: list[str] = field(default_factory=list)

    def capture(self, run: StoredRun) -> CaptureReport:
        """Say how far it is."""
        return self.report

    def forget(self, run: StoredRun) -> None:
        """Note which run is not asked for any more."""
        self.forgotten.append(run.run_id)


@pytest.fixture
def capture() -> SlowCapture:
    """Return a capture that goes on and on."""
    return SlowCapture(GOING)


@pytest.fixture
def captured(
    sqlite_store: Store, cluster: FakeCluster, operator: FakeOperator, capture: SlowCapture
) -> Iterator[Site]:
    """Yield a server with a run that is over and whose capture has begun."""
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        places = FakePlaces({"east": cluster})
        site = make_site(keeper, places, operator, store=sqlite_store, capturer=capture)
        site.dispatch("run-1")
        site.pass_until(lambda: "run-1" in cluster.runs)
        cluster.become("run-1", RunState.COMPLETED)
        site.pass_until(lambda: site.run("run-1").capture is Capture.RUNNING)
        yield site
        site.close()


def words(site: Site) -> list[str]:
    """Return what the journal says of the capture."""
    return [one.message for one in site.events("run-1", "capture")]


def test_a_teardown_waits_for_the_capture(
    captured: Site, operator: FakeOperator, capture: SlowCapture
) -> None:
    captured.reconciler.make_pass()
    assert OperationKind.DESTROY not in operator.of("run-1")

    capture.report = CaptureReport(state=CaptureState.DONE)
    run = captured.until_settled("run-1")

    assert (run.capture, run.teardown) == (Capture.DONE, Teardown.DONE)
    assert words(captured) == ["running", "done"]


def test_a_capture_that_fails_for_good_does_not_hold_the_teardown(
    captured: Site, capture: SlowCapture
) -> None:
    capture.report = CaptureReport(state=CaptureState.FAILED, message="the disk is full")

    run = captured.until_settled("run-1")

    assert (run.capture, run.teardown) == (Capture.INCOMPLETE, Teardown.DONE)
    assert words(captured) == ["running", "incomplete: the disk is full"]


def test_a_capture_that_is_late_is_given_up_and_goes_on_no_longer(
    captured: Site, capture: SlowCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert capture.forgotten == []
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.2)

    run = captured.until_settled("run-1")

    assert (run.capture, run.teardown) == (Capture.INCOMPLETE, Teardown.DONE)
    assert capture.forgotten == ["run-1"]
    assert words(captured)[-1].startswith("incomplete: 3 of 9 files; nothing more was kept for")


def test_a_capture_that_goes_on_is_not_given_up_however_long_it_takes(
    captured: Site,
    operator: FakeOperator,
    capture: SlowCapture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.0)
    capture.report = replace(GOING, idle_s=0.0)

    for _ in range(3):
        captured.reconciler.make_pass()
    assert captured.run("run-1").capture is Capture.RUNNING
    assert OperationKind.DESTROY not in operator.of("run-1")

    capture.report = replace(GOING, idle_s=1.0)
    run = captured.until_settled("run-1")
    assert (run.capture, run.teardown) == (Capture.INCOMPLETE, Teardown.DONE)


def restarted(site: Site, capture: SlowCapture) -> None:
    """Let a next server look twice, and end."""
    parts = site.keeper, site.places, site.operator
    following = make_site(*parts, store=site.store, user=site.user, capturer=capture)
    for _ in range(2):
        following.reconciler.make_pass()
    following.close()


def test_a_capture_that_every_next_server_begins_again_is_given_up(
    captured: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        restarted(captured, SlowCapture(BEGUN))
    assert captured.run("run-1").capture is Capture.RUNNING  # it took no time
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.0)

    restarted(captured, SlowCapture(BEGUN))

    assert captured.run("run-1").capture is Capture.INCOMPLETE
    assert "nothing more was kept for" in words(captured)[-1]


def test_a_capture_that_waits_for_its_turn_outlives_any_number_of_servers(
    captured: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.0)

    for _ in range(5):
        restarted(captured, SlowCapture(replace(BEGUN, had_turn=False)))

    assert captured.run("run-1").capture is Capture.RUNNING
    assert words(captured) == ["running"]


def test_a_capture_of_which_some_server_keeps_more_outlives_any_number_of_them(
    captured: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.0)

    for _ in range(3):
        for found in (BEGUN, BEGUN, replace(BEGUN, has_kept=True)):
            restarted(captured, SlowCapture(found))

    assert captured.run("run-1").capture is Capture.RUNNING


def test_a_cluster_whose_context_is_gone_holds_the_teardown_for_the_same_time_only(
    sqlite_store: Store,
    cluster: FakeCluster,
    operator: FakeOperator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.control.last_steps.CAPTURE_LIMIT_S", 0.5)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    connection = KubernetesConnection(context="gone", namespace="runs")
    known = profile(tmp_path).model_copy(update={"connection": connection})
    sources = RunSources(GivenClusters(found={"east": known}), DirectoryStore(tmp_path / "kept"))
    capturer = StoreCapturer(sources)
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        places = FakePlaces({"east": cluster})
        site = make_site(keeper, places, operator, store=sqlite_store, capturer=capturer)
        site.dispatch("run-1")
        site.pass_until(lambda: "run-1" in cluster.runs)
        cluster.become("run-1", RunState.COMPLETED)

        run = site.until_settled("run-1")
        site.close()
    capturer.close()

    assert (run.capture, run.teardown) == (Capture.INCOMPLETE, Teardown.DONE)
    assert "kubeconfig" in words(site)[-1]
