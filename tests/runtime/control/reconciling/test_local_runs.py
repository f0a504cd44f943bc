"""Real local runs under the reconciler: promotion, ends of every kind, and nothing left over."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import supervisor_client
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.operations import OperationKind
from runtime.control.requests import ResumeRun
from runtime.control.run_places import ClusterPlaces
from runtime.control.store import runs
from runtime.control.store.store import Store
from runtime.local_state import read_index
from runtime.observe.local import run_processes
from runtime.states import RunState, Teardown
from tests.runtime.control.reconciling.local_site import (
    LocalClusters,
    LocalOperator,
    endless,
    short,
)
from tests.runtime.control.reconciling.site import Site, make_site
from tests.runtime.local.local_runs import Local

pytestmark = pytest.mark.control

PROGRAMS = {
    "run-1": short(0.3),
    "run-2": short(0.3),
    "run-3": short(0.3),
    "run-end": endless,
    "run-bad": {"orchestrator": "raise SystemExit(3)", "trainer-0": endless["trainer-0"]},
    "run-hand": endless,
}
K, S = OperationKind, RunState


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """Yield a local cluster of two slots; its runs are released in the end."""
    made = Local(tmp_path, num_slots=2)
    yield made
    for run in made.started:
        supervisor_client.release_run(run)


@pytest.fixture
def operator(local: Local) -> LocalOperator:
    """Return what starts real local runs."""
    return LocalOperator(local, PROGRAMS)


@pytest.fixture
def site(sqlite_store: Store, local: Local, operator: LocalOperator) -> Iterator[Site]:
    """Yield a server over the local cluster."""
    places = ClusterPlaces(LocalClusters(local, num_slots=2))
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        made = make_site(keeper, places, operator, store=sqlite_store)
        yield made
        made.close()
        places.close()


def test_three_runs_go_through_two_slots(site: Site, local: Local, operator: LocalOperator) -> None:
    names = ["run-1", "run-2", "run-3"]
    for name in names:
        site.dispatch(name)
    site.pass_until(lambda: site.run("run-2").state is not S.QUEUED)
    assert site.run("run-3").state is S.QUEUED

    site.pass_until(lambda: all(site.is_settled(name) for name in names), timeout_s=180)

    for name in names:
        run = site.run(name)
        assert (run.state, run.teardown) == (S.COMPLETED, Teardown.DONE), run.reason
        assert operator.of(name) == [K.MAKE, K.UP, K.DESTROY, K.REMOVE]
        assert local.leftovers(local.run(name)) == []
        [interval] = site.intervals(name)
        assert (interval.num_gpus, interval.price_microusd_per_gpu_hour) == (1, 1_000_000)
        assert interval.ended_at is not None


def test_a_running_run_is_stopped_with_nothing_left(site: Site, local: Local) -> None:
    site.dispatch("run-end")
    site.until_state("run-end", S.RUNNING)

    site.intents.stop(site.user, "run-end")
    run = site.until_state("run-end", S.STOPPED)

    assert run_processes(local.run("run-end")) == frozenset()
    assert run.reason == "stopped on request"
    site.until_settled("run-end")
    assert local.leftovers(local.run("run-end")) == []


def test_a_server_of_another_host_stops_nothing_and_says_so(site: Site, local: Local) -> None:
    site.dispatch("run-end")
    site.until_state("run-end", S.RUNNING)
    cluster, away = local.state / "cluster.json", local.state / "of-the-other-host"
    cluster.rename(away)

    site.intents.stop(site.user, "run-end")
    site.pass_until(lambda: "does not answer: its machine is not" in site.run("run-end").reason)
    assert site.run("run-end").state is S.RUNNING
    assert run_processes(local.run("run-end"))

    away.rename(cluster)
    assert site.until_state("run-end", S.STOPPED).reason == "stopped on request"
    assert run_processes(local.run("run-end")) == frozenset()


def test_a_failed_component_fails_the_run_by_name(site: Site, local: Local) -> None:
    site.dispatch("run-bad")

    run = site.until_settled("run-bad")

    assert run.state is S.FAILED
    assert "orchestrator exited with code 3" in run.reason
    assert run.exit_details is not None
    assert run.exit_details.exit_code == 3


def test_a_run_whose_supervisor_was_killed_is_settled(site: Site, local: Local) -> None:
    site.dispatch("run-end")
    site.until_state("run-end", S.RUNNING)
    entry = read_index(local.state, "run-end")
    assert entry is not None
    assert entry.supervisor is not None

    os.kill(entry.supervisor.pid, signal.SIGKILL)
    run = site.until_settled("run-end")

    assert run.state is S.FAILED
    assert "supervisor died" in run.reason
    assert local.leftovers(local.run("run-end")) == []


def test_a_paused_run_lets_its_slot_go_and_takes_one_again(site: Site, local: Local) -> None:
    site.dispatch("run-end")
    site.until_state("run-end", S.RUNNING)
    checkpoints = local.run("run-end").directory.checkpoints
    site.intents.pause(site.user, "run-end")
    site.until_state("run-end", S.PAUSING)
    (checkpoints / "step_5").mkdir(parents=True)
    site.until_state("run-end", S.PAUSED)
    assert local.leftovers(local.run("run-end")) == []

    site.intents.resume(site.user, "run-end", ResumeRun())
    run = site.until_state("run-end", S.RUNNING)
    assert run.attempt == 2

    site.intents.delete(site.user, "run-end")
    site.pass_until(lambda: site.run("run-end").deleted_at)
    assert local.leftovers(local.run("run-end", 2)) == []
    assert [one.attempt for one in site.intervals("run-end")] == [1, 2]


def test_a_run_by_hand_is_adopted_and_holds_its_slot(
    site: Site, local: Local, operator: LocalOperator
) -> None:
    local.up(endless, run_id="run-hand", num_slots=2)
    site.reconciler.make_pass()
    assert site.run("run-hand").is_adopted
    site.until_state("run-hand", S.RUNNING)

    site.dispatch("run-1")
    site.pass_until(lambda: "0 of 2 CPU are free" in site.run("run-1").reason)
    supervisor_client.release_run(local.run("run-hand"), is_destroy=True)

    assert site.until_settled("run-hand").state is S.STOPPED
    assert site.until_settled("run-1").state is S.COMPLETED
    assert "run-hand" not in {run_id for run_id, _, _ in operator.performed}


def test_a_run_of_another_control_plane_on_this_machine_is_left_to_it(
    site: Site, local: Local
) -> None:
    run = local.up(endless, run_id="run-hand", num_slots=1)
    run.directory.control_plane.write_text("another\n")

    site.reconciler.make_pass()

    with site.store.read() as tx:
        assert runs.get_run(tx, "run-hand") is None


def test_what_a_torn_down_run_left_on_this_machine_is_swept(site: Site, local: Local) -> None:
    site.dispatch("run-1")
    site.until_settled("run-1")
    local.up(endless, run_id="run-hand", num_slots=1)  # of nobody: never touched
    stray = local.run("run-1", 2)
    supervisor_client.start_run(local.request(stray, endless, num_slots=1))

    site.places.refresh()
    with site.store.write() as tx:
        tx.exec_driver_sql("UPDATE runs SET attempt = 2 WHERE run_id = 'run-1'")
    found = site.sweep()

    assert {one.leftover.run_id for one in found} == {"run-1"}
    assert {one.verdict for one in found} == {"removed"}
    assert local.leftovers(stray) == []
    assert run_processes(local.run("run-hand"))
