"""Only what is provably this control plane's, and over, is removed."""

import threading
from datetime import UTC, datetime

import pytest

from runtime.control.orphans import Orphan, OrphanSweep
from runtime.control.places import Leftover
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import GPU, FakeCluster, FakePlaces
from tests.runtime.control.reconciling.site import Site
from tests.waiting import wait_for


def left(run_id: str, owner: str, *, is_of_machine: bool = False) -> Leftover:
    return Leftover(
        cluster="east",
        kind="Pod",
        name=f"{run_id}-pod",
        run_id=run_id,
        control_plane_id=owner,
        is_of_machine=is_of_machine,
        gpu_type=GPU,
        num_gpus=2,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def sweep(site: Site, cluster: FakeCluster, *leftovers: Leftover) -> tuple[Orphan, ...]:
    cluster.left = list(leftovers)
    site.places = FakePlaces({"east": cluster})
    return site.sweep()


def over(site: Site, cluster: FakeCluster, run_id: str = "run-1") -> None:
    site.dispatch(run_id)
    site.pass_until(lambda: run_id in cluster.runs)
    cluster.become(run_id, RunState.COMPLETED)
    site.until_settled(run_id)


def test_what_a_torn_down_run_left_is_removed(site: Site, cluster: FakeCluster) -> None:
    over(site, cluster)

    [orphan] = sweep(site, cluster, left("run-1", site.store.control_plane_id))

    assert orphan.verdict == "removed"
    assert cluster.swept == ["run-1"]
    assert "removed" in site.events("run-1", "notice")[0].message


def test_what_carries_another_control_planes_id_is_not_even_reported(
    site: Site, cluster: FakeCluster
) -> None:
    over(site, cluster)

    assert sweep(site, cluster, left("run-1", "another"), left("run-x", "another")) == ()
    assert cluster.swept == []


def test_what_nobody_signed_is_reported_and_kept(site: Site, cluster: FakeCluster) -> None:
    over(site, cluster)

    [orphan] = sweep(site, cluster, left("run-1", ""))

    assert orphan.verdict == "kept"
    assert cluster.swept == []


def test_what_lies_in_this_machines_state_is_known_by_the_store(
    site: Site, cluster: FakeCluster
) -> None:
    over(site, cluster)

    [orphan] = sweep(site, cluster, left("run-1", "", is_of_machine=True))

    assert orphan.verdict == "removed"


def test_a_live_run_leaves_nothing_behind(site: Site, cluster: FakeCluster) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)

    assert sweep(site, cluster, left("run-1", site.store.control_plane_id)) == ()


def test_what_the_store_does_not_know_is_reported_with_its_cost(
    site: Site, cluster: FakeCluster
) -> None:
    [orphan] = sweep(site, cluster, left("run-lost", site.store.control_plane_id))

    assert orphan.verdict == "kept"
    assert orphan.cost_microusd > 1_000_000
    assert str(orphan).startswith("Pod run-lost-pod of run-lost on east: carries this control")


def test_no_sweep_begins_while_one_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[datetime] = []
    may_end = threading.Event()

    def wait_for_a_destroy(sweep: OrphanSweep, now: datetime, fence: object) -> None:
        began.append(now)
        may_end.wait(60)

    monkeypatch.setattr("runtime.control.reconciler.SWEEP_S", 0.0)
    monkeypatch.setattr(OrphanSweep, "sweep_safely", wait_for_a_destroy)
    for _ in range(3):
        site.reconciler.make_pass()
    wait_for(lambda: began)
    num_at_once = len(began)
    may_end.set()

    site.pass_until(lambda: len(began) > 1)

    assert num_at_once == 1
