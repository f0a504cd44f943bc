"""Stacks that no live run has: own ones are removed, the others are named or nobody's business."""

import pytest

from runtime.control.operations import OperationKind
from runtime.control.places import FoundRun, Leftover
from runtime.states import RunState
from tests.runtime.control.reconciling.fake_stacks import UNREADABLE, FakeStacks, facts_of
from tests.runtime.control.reconciling.fakes import GPU, FakeCluster, FakeOperator
from tests.runtime.control.reconciling.site import Site
from tests.runtime.control.reconciling.test_adopted import record

K = OperationKind
REMOVED = [K.DESTROY, K.REMOVE]


def put(stacks: FakeStacks, name: str, owner: str, *, trouble: str = "", number: int = 8) -> None:
    facts = facts_of(controlPlane=owner) if owner else facts_of()
    facts = type(facts)(settings=facts.settings, trouble=trouble)
    stacks.stacks[name] = (facts, number)


def over(site: Site, cluster: FakeCluster) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)
    cluster.become("run-1", RunState.COMPLETED)
    site.until_settled("run-1")


def test_the_stack_of_a_torn_down_run_is_destroyed(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    over(site, cluster)
    put(stacks, "run-1", site.store.control_plane_id)

    [orphan] = site.sweep()

    assert str(orphan) == (
        "stack run-1 of run-1 on east: its run is COMPLETED and torn down: removed"
    )
    assert operator.of("run-1")[-2:] == REMOVED
    assert "removed the stack" in site.events("run-1", "notice")[-1].message


def test_the_stack_of_a_live_run_is_none(
    site: Site, cluster: FakeCluster, stacks: FakeStacks
) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)
    put(stacks, "run-1", site.store.control_plane_id)

    assert site.sweep() == ()


def test_a_stack_that_the_store_does_not_know_is_destroyed_where_it_is_signed(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    put(stacks, "run-lost", site.store.control_plane_id)
    put(stacks, "run-another", "another")
    put(stacks, "run-hand", "")
    stacks.stacks["east"] = (type(facts_of())(settings={"kind": "cluster"}), 3)
    cluster.left = [
        Leftover(
            cluster="east",
            kind="claim",
            name="run-lost",
            run_id="run-lost",
            is_of_machine=True,
            gpu_type=GPU,
            num_gpus=2,
        )
    ]

    [orphan] = site.sweep()

    assert (orphan.leftover.name, orphan.verdict) == ("run-lost", "removed")
    assert orphan.cost_microusd > 1_000_000  # since its last update, for what its run holds
    assert operator.of("run-lost") == REMOVED
    assert {run_id for run_id, _, _ in operator.performed} == {"run-lost"}


def test_a_stack_that_cannot_be_opened_is_named_and_never_destroyed(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    over(site, cluster)
    put(stacks, "run-1", site.store.control_plane_id, trouble=UNREADABLE.trouble)
    put(stacks, "run-lost", site.store.control_plane_id, trouble=UNREADABLE.trouble)

    found = site.sweep()

    assert [one.verdict for one in found] == ["kept", "kept"]
    assert all("incorrect passphrase" in str(one) for one in found)
    assert operator.of("run-1").count(K.DESTROY) == 1  # its own teardown
    assert "run-lost" not in operator.reports


def test_an_empty_stack_needs_no_passphrase(
    site: Site, cluster: FakeCluster, stacks: FakeStacks
) -> None:
    over(site, cluster)
    stacks.stacks["run-1"] = (UNREADABLE, 0)  # as a MAKE leaves it: never up, so without settings

    [orphan] = site.sweep()

    assert orphan.verdict == "removed"


@pytest.mark.parametrize(("is_reachable", "why"), [(True, "lives"), (False, "does not say")])
def test_what_may_still_run_is_not_destroyed(
    site: Site,
    cluster: FakeCluster,
    stacks: FakeStacks,
    operator: FakeOperator,
    *,
    is_reachable: bool,
    why: str,
) -> None:
    put(stacks, "run-hand", site.store.control_plane_id)
    cluster.is_reachable = is_reachable
    cluster.found = [FoundRun(cluster="east", record=record())] if is_reachable else []

    [orphan] = site.sweep()

    assert (orphan.verdict, operator.performed) == ("kept", [])
    assert why in str(orphan)


def test_a_stack_made_by_hand_stays_after_its_teardown(
    site: Site, cluster: FakeCluster, stacks: FakeStacks
) -> None:
    over(site, cluster)
    with site.store.write() as tx:
        tx.exec_driver_sql("UPDATE runs SET is_adopted = 1")
    put(stacks, "run-1", "", number=0)

    assert site.sweep() == ()


def test_the_stack_of_a_person_who_goes_on_with_a_run_of_ours_stays(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    over(site, cluster)
    put(stacks, "run-1", "")
    num_operations = len(operator.of("run-1"))

    assert site.sweep() == ()
    assert len(operator.of("run-1")) == num_operations


def test_a_stack_whose_run_lives_on_the_cluster_stays_though_ours_is_over(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    over(site, cluster)
    put(stacks, "run-1", site.store.control_plane_id)
    cluster.found = [FoundRun(cluster="east", record=record("run-1"))]
    num_operations = len(operator.of("run-1"))

    [orphan] = site.sweep()

    assert "its run lives" in str(orphan)
    assert len(operator.of("run-1")) == num_operations


def test_a_stack_that_does_not_go_is_stuck(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator
) -> None:
    over(site, cluster)
    put(stacks, "run-1", site.store.control_plane_id)
    operator.failures[K.DESTROY] = [{"code": "stack", "message": "the cluster is away"}]

    [orphan] = site.sweep()

    assert orphan.verdict == "stuck"
    assert "the cluster is away" in site.events("run-1", "notice")[-1].message
