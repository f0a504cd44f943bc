"""Runs made by hand whose stacks the server can open are driven like its own; the stacks stay."""

import pytest

from runtime.control.operations import OperationKind
from runtime.control.places import FoundRun
from runtime.control.requests import ResumeRun
from runtime.errors import RunStateError
from runtime.states import RunState
from tests.runtime.control.reconciling.fake_stacks import UNREADABLE, FakeStacks, facts_of
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator
from tests.runtime.control.reconciling.site import Site
from tests.runtime.control.reconciling.test_adopted import found, is_known

K, S = OperationKind, RunState
HAND = "run-hand"


@pytest.fixture(autouse=True)
def adopted(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a run be made by hand, whose stack can be opened, and be adopted."""
    monkeypatch.setattr("runtime.control.reconciler.ADOPT_S", 0.0)
    monkeypatch.setattr("runtime.control.last_steps.BY_HAND_S", 0.2)
    stacks.stacks[HAND] = (facts_of(), 8)
    found(cluster)
    site.pass_until(lambda: is_known(site))
    with site.store.write() as tx:
        tx.exec_driver_sql("UPDATE runs SET config_text = 'toml'")


def resume(site: Site, **asked: object) -> None:
    site.intents.resume(site.user, HAND, ResumeRun(**asked))  # type: ignore[arg-type]  # by name


def test_at_its_end_it_is_torn_down_once_its_maker_has_not(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    cluster.become(HAND, S.COMPLETED)

    run = site.until_settled(HAND)

    assert run.state is S.COMPLETED
    assert operator.of(HAND) == [K.DESTROY, K.REMOVE]
    assert operator.operations[HAND].is_adopted  # so its stack stays


def test_what_its_maker_has_destroyed_is_left_alone(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    cluster.become(HAND, S.COMPLETED)
    cluster.runs[HAND].is_torn_down = True

    site.until_settled(HAND)

    assert operator.performed == []


def test_a_stop_ends_it(site: Site, cluster: FakeCluster, operator: FakeOperator) -> None:
    site.intents.stop(site.user, HAND)

    run = site.until_settled(HAND)

    assert (run.state, run.reason) == (S.STOPPED, "stopped on request")
    assert [run_id for run_id, _ in cluster.ended] == [HAND]
    assert operator.of(HAND) == [K.DESTROY, K.REMOVE]


def test_a_delete_forgets_it(site: Site) -> None:
    site.intents.delete(site.user, HAND)

    site.pass_until(lambda: site.run(HAND).deleted_at)

    assert site.run(HAND).state is S.STOPPED


def test_a_pause_lets_it_go_and_a_resume_is_an_attempt_of_the_server(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    site.intents.pause(site.user, HAND)
    site.until_state(HAND, S.PAUSING)
    cluster.runs[HAND].checkpoint = 5
    site.until_state(HAND, S.PAUSED)
    assert operator.performed == []

    resume(site)
    site.pass_until(lambda: cluster.runs[HAND].attempt == 2)
    cluster.become(HAND, S.RUNNING)
    run = site.until_state(HAND, S.RUNNING)

    assert (run.attempt, run.is_driven) == (2, True)
    assert operator.of(HAND) == [K.RESUME]
    asked = operator.operations[HAND]
    assert asked.is_adopted
    assert asked.settings["attempt"] == 2
    assert asked.settings["configText"] == "toml"


def test_a_restart_is_an_attempt_of_the_server(site: Site, cluster: FakeCluster) -> None:
    site.intents.restart(site.user, HAND)

    site.pass_until(lambda: cluster.runs[HAND].attempt == 2)

    assert cluster.starts == [(HAND, 2)]


def test_an_attempt_begun_by_hand_is_never_begun_by_the_server(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    site.intents.stop(site.user, HAND)
    site.until_settled(HAND)

    found(cluster, attempt=2)
    again = site.until_state(HAND, S.RUNNING)
    del cluster.runs[HAND]  # as if its directory were gone
    for _ in range(5):
        site.reconciler.make_pass()

    assert (again.attempt, again.wish, again.capture, again.teardown) == (2, "RUN", "none", "none")
    assert again.ended_at is None
    assert K.RESUME not in operator.of(HAND)
    cluster.found = []
    found(cluster, attempt=2)
    cluster.become(HAND, S.COMPLETED)
    site.until_settled(HAND)
    assert operator.of(HAND)[-2:] == [K.DESTROY, K.REMOVE]


@pytest.mark.parametrize("intent", ["stop", "restart", "delete"])
def test_what_the_server_could_not_open_it_does_not_touch(
    site: Site, cluster: FakeCluster, stacks: FakeStacks, operator: FakeOperator, intent: str
) -> None:
    stacks.stacks[HAND] = (UNREADABLE, 8)

    with pytest.raises(RunStateError, match="incorrect passphrase: type `paddock"):
        getattr(site.intents, intent)(site.user, HAND)
    cluster.become(HAND, S.FAILED)
    site.until_state(HAND, S.FAILED)
    for _ in range(5):
        site.reconciler.make_pass()

    assert operator.performed == []
    assert site.run(HAND).teardown == "none"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (facts_of("west"), "is another one"),
        (facts_of(envFile="../secrets.env"), "paddock:envFile ../secrets.env is a path of another"),
    ],
)
def test_a_restart_that_would_begin_something_else_is_refused(
    site: Site, stacks: FakeStacks, facts: object, why: str
) -> None:
    stacks.stacks[HAND] = (facts, 8)  # type: ignore[assignment]  # a parameter

    with pytest.raises(RunStateError, match=why):
        site.intents.restart(site.user, HAND)


def test_new_secrets_are_set_by_hand(site: Site, cluster: FakeCluster) -> None:
    cluster.runs[HAND].checkpoint = 1
    site.intents.pause(site.user, HAND)
    site.until_state(HAND, S.PAUSING)
    cluster.runs[HAND].checkpoint = 2
    site.until_state(HAND, S.PAUSED)

    with pytest.raises(RunStateError, match="pulumi config set --secret"):
        resume(site, secrets={"HF_TOKEN": "x"})


def test_a_run_of_this_control_plane_that_a_restore_forgot_is_taken_in(
    site: Site, cluster: FakeCluster
) -> None:
    known = cluster.found[0]
    lost = known.record.model_copy(update={"run_id": "run-lost"})
    cluster.runs["run-lost"] = cluster.runs[HAND]
    owner = site.store.control_plane_id
    cluster.found = [known, FoundRun(cluster="east", record=lost, control_plane_id=owner)]

    site.reconciler.make_pass()

    assert site.run("run-lost").is_adopted
