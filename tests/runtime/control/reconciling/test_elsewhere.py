"""A local cluster is one machine: a server of another host leaves its runs as they are."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.control.local_runs import LocalPlace, LocalSight
from runtime.control.operations import OperationKind, OperationState
from runtime.control.run_places import ClusterPlaces
from runtime.control.situations import Situation
from runtime.control.step_kinds import Advance, Note, Nothing, SetTeardown, Step
from runtime.control.steps import next_step
from runtime.control.values import StoredRun, Wish
from runtime.local_state import create_state
from runtime.states import RunState, Teardown
from tests.runtime.control.operating.dispatching import GivenClusters
from tests.runtime.control.reconciling.test_remade import MAKE, NOW, RUN

UP = replace(MAKE, kind=OperationKind.UP, state=OperationState.RUNNING, code="", finished_at=None)
PLACED = replace(RUN, state=RunState.RUNNING, cluster="east", queue_number=None)
OVER = replace(PLACED, state=RunState.FAILED, ended_at=NOW)


@pytest.fixture
def profile(tmp_path: Path) -> ClusterProfile:
    """Return a local cluster whose state directory is not there."""
    connection = LocalConnection(state_path=str(tmp_path / "state"), cache_path="/nowhere")
    offer = GpuOffer(name="CPU", num_nodes=1, gpus_per_node=1, price_usd_per_hour=0.0)
    return ClusterProfile(
        name="east", gpus=(offer,), connection=connection, runs_path=str(tmp_path / "runs")
    )


def step(profile: ClusterProfile, run: StoredRun) -> Step:
    """Return what is done with a run whose `up` a dead server of another host had begun."""
    seen = LocalPlace(run=run, sight=LocalSight(profile)).observe()
    now = NOW + timedelta(days=1)
    return next_step(Situation(run=run, now=now, seen=seen, newest=UP, is_holder_dead=True))


@pytest.mark.parametrize("wish", list(Wish))
@pytest.mark.parametrize("state", [RunState.PENDING, RunState.RUNNING])
def test_a_run_of_another_machine_waits_for_a_server_there_and_says_so(
    profile: ClusterProfile, monkeypatch: pytest.MonkeyPatch, wish: Wish, state: RunState
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "web-2")

    found = step(profile, replace(PLACED, state=state, wish=wish))

    assert isinstance(found, Note)
    assert found.reason.startswith("cluster east does not answer: its machine is not web-2, where")


def test_what_is_over_on_another_machine_is_neither_captured_nor_destroyed(
    profile: ClusterProfile,
) -> None:
    found = step(profile, OVER)

    assert isinstance(found, SetTeardown)
    assert found.teardown is Teardown.UNREACHABLE
    assert "does not answer" in found.message
    assert step(profile, replace(OVER, teardown=Teardown.UNREACHABLE)) == Nothing()


def test_a_run_that_never_began_on_another_machine_can_be_stopped(profile: ClusterProfile) -> None:
    run = replace(PLACED, state=RunState.QUEUED, wish=Wish.STOP)
    seen = LocalPlace(run=run, sight=LocalSight(profile)).observe()
    made = replace(MAKE, state=OperationState.DONE, code="")

    found = next_step(Situation(run=run, now=NOW, seen=seen, newest=made))

    assert isinstance(found, Advance)
    assert found.state is RunState.STOPPED


def test_a_paused_run_of_another_machine_stays_as_it_is(profile: ClusterProfile) -> None:
    assert step(profile, replace(PLACED, state=RunState.PAUSED)) == Nothing()


def test_a_cluster_that_is_another_machine_does_not_answer(
    profile: ClusterProfile, tmp_path: Path
) -> None:
    places = ClusterPlaces(GivenClusters(found={"east": profile}))
    places.refresh()

    [room] = places.rooms()
    assert room.trouble.startswith("cluster east does not answer: its machine is not")
    assert places.answering() == frozenset()
    assert places.are_open()  # nobody waits for it to connect

    create_state(tmp_path / "state", devices=("",))
    [room] = places.rooms()
    assert (room.trouble, places.answering()) == ("", {"east"})
