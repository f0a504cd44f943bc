"""Runs that others made are watched, metered and shown, and never changed."""

from dataclasses import replace

import pytest

from runtime.config import load_config
from runtime.control.adopted import Adoption
from runtime.control.lease_keeper import SCHEDULER
from runtime.control.places import FoundRun
from runtime.control.store.store import Store
from runtime.errors import RunStateError
from runtime.plan import build_plan, plan_to_json
from runtime.record import RunRecord
from runtime.run_record import advanced, begun
from runtime.states import RunState, Teardown
from tests.engine.sites import ROOT
from tests.runtime.control.reconciling.fakes import GPU, FakeCluster, FakeOperator, FakeRun
from tests.runtime.control.reconciling.site import Site


def record(run_id: str = "run-hand", attempt: int = 1) -> RunRecord:
    made = begun(None, run_id=run_id, config_digest="d", attempt=attempt)
    made = advanced(made, RunState.PENDING, attempt=attempt)
    return advanced(made, RunState.RUNNING, attempt=attempt)


def found(cluster: FakeCluster, owner: str = "", attempt: int = 1) -> None:
    cluster.runs["run-hand"] = FakeRun(state=RunState.RUNNING, attempt=attempt)
    cluster.found = [
        FoundRun(
            cluster="east",
            record=record(attempt=attempt),
            control_plane_id=owner,
            gpu_type=GPU,
            num_gpus=1,
        )
    ]


def is_known(site: Site) -> bool:
    with site.store.read() as tx:
        return tx.exec_driver_sql("SELECT count(*) FROM runs").scalar_one() > 0


def test_a_run_made_by_hand_is_watched_and_metered(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    found(cluster)
    site.pass_until(lambda: is_known(site))
    run = site.run("run-hand")
    assert (run.is_adopted, run.state, run.user_id) == (True, RunState.RUNNING, site.user.user_id)
    site.pass_until(lambda: site.intervals("run-hand"))

    cluster.become("run-hand", RunState.COMPLETED)
    assert site.until_state("run-hand", RunState.COMPLETED).teardown is Teardown.NONE
    cluster.runs["run-hand"].is_torn_down = True
    site.until_settled("run-hand")

    assert operator.performed == []
    assert cluster.ended == []


@pytest.mark.parametrize(
    ("intent", "command"),
    [
        ("stop", "`paddock stop run-hand`"),
        ("pause", "`paddock stop run-hand`"),
        ("restart", "`paddock resume run-hand`"),
        ("delete", "`paddock destroy run-hand --remove`"),
    ],
)
def test_an_intent_is_answered_with_the_command_to_type(
    site: Site, cluster: FakeCluster, intent: str, command: str
) -> None:
    found(cluster)
    site.pass_until(lambda: is_known(site))

    with pytest.raises(RunStateError, match=command):
        getattr(site.intents, intent)(site.user, "run-hand")

    assert site.run("run-hand").wish == "RUN"


def test_a_run_of_another_control_plane_is_left_to_it(site: Site, cluster: FakeCluster) -> None:
    found(cluster, owner="another")

    for _ in range(3):
        site.reconciler.make_pass()

    assert not is_known(site)


def test_an_attempt_begun_by_hand_is_followed(
    site: Site, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.reconciler.ADOPT_S", 0.0)
    found(cluster)
    site.pass_until(lambda: is_known(site))
    cluster.become("run-hand", RunState.FAILED)
    site.until_state("run-hand", RunState.FAILED)

    found(cluster, attempt=2)
    run = site.until_state("run-hand", RunState.RUNNING)

    assert run.attempt == 2


def test_what_comes_after_the_record_is_taken_in_when_it_is_there(
    site: Site, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.reconciler.ADOPT_S", 0.0)
    found(cluster)
    cluster.found = [replace(cluster.found[0], num_gpus=0)]
    site.pass_until(lambda: is_known(site))
    early = site.run("run-hand")

    loaded = load_config((ROOT / "examples" / "demo.toml").read_text())
    plan = build_plan(loaded, run_id="run-hand")
    found(cluster)
    cluster.found = [replace(cluster.found[0], config_text="toml", plan_json=plan_to_json(plan))]
    site.reconciler.make_pass()
    run = site.run("run-hand")
    site.reconciler.make_pass()
    again = site.run("run-hand")

    assert (early.name, early.num_gpus, early.config_text) == ("run-hand", 0, "")
    assert (run.num_gpus, run.config_text) == (1, "toml")
    assert (run.name, run.model, run.max_steps) == (plan.name, plan.model, plan.max_steps)
    assert again.version == run.version


def test_what_is_known_already_is_not_written_again(
    site: Site, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.dispatch("run-own")
    found(cluster)
    own = replace(cluster.found[0], record=record("run-own"))
    cluster.found = [*cluster.found, replace(own, control_plane_id=site.store.control_plane_id)]
    adoption = Adoption(store=site.store, places=site.places)
    fence = site.keeper.lease(SCHEDULER)
    assert fence is not None
    adoption.adopt(fence)
    written: list[Store] = []
    monkeypatch.setattr(Store, "write", written.append)

    adoption.adopt(fence)

    assert site.run("run-hand").is_adopted
    assert written == []
