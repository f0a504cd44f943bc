"""Runs that others made are watched, metered and shown, and never changed."""

import pytest

from runtime.control.places import FoundRun
from runtime.errors import RunStateError
from runtime.record import RunRecord
from runtime.run_record import advanced, begun
from runtime.states import RunState, Teardown
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
