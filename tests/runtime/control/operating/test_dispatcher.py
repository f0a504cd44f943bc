"""Dispatch: what refuses a run, what is stored in one transaction, and where secrets go."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.control.operations import OperationBusyError, OperationKind, OperationState
from runtime.control.situations import Situation
from runtime.control.step_kinds import Advance, Start
from runtime.control.steps import next_step
from runtime.control.store import events, operations, run_lists, runs, volumes, wallets
from runtime.control.store.columns import read_clock
from runtime.control.store.leases import LostLeaseError
from runtime.control.store.run_lists import RunFilter
from runtime.control.store.store import Store
from runtime.control.values import StoredRun, VolumeStatus, wallet_id_of
from runtime.errors import ConfigError, ConflictError, RefusedError
from runtime.states import RunState
from tests.runtime.control.operating.dispatching import Dispatching, config, request

CANARY = "canary-2f71"


@pytest.fixture
def dispatching(sqlite_store: Store, tmp_path: Path) -> Dispatching:
    """Return a dispatcher with one local cluster of four slots."""
    made = Dispatching(store=sqlite_store, folder=tmp_path)
    made.add_cluster("local")
    return made


def stored(dispatching: Dispatching, run_id: str) -> StoredRun:
    with dispatching.store.read() as tx:
        found = runs.get_run(tx, run_id)
    assert found is not None
    return found


def all_runs(dispatching: Dispatching) -> tuple[StoredRun, ...]:
    with dispatching.store.read() as tx:
        return run_lists.list_runs(tx, RunFilter(), limit=100).runs


def codes(error: RefusedError) -> set[str]:
    return {problem.code for problem in error.problems}


def test_a_run_is_queued_with_the_operation_that_makes_its_stack(
    dispatching: Dispatching, tmp_path: Path
) -> None:
    wanted = request(config(), secrets={"HF_TOKEN": CANARY}, image_tag="v1")

    run = dispatching.dispatcher.create(dispatching.user(), wanted, None)

    assert run == stored(dispatching, run.run_id)
    assert (run.state, run.queue_number, run.num_gpus) == (RunState.QUEUED, 1, 2)
    assert (run.cluster, run.gpu_type) == (None, None)  # the scheduler chooses
    assert run.secret_names == ("HF_TOKEN",)
    [operation] = dispatching.operator.started
    assert operation.kind is OperationKind.MAKE
    assert operation.settings == {
        "imageTag": "v1",
        "configText": config(),
        "cluster": "local",
        "controlPlane": dispatching.store.control_plane_id,
    }
    assert operation.secrets == {"HF_TOKEN": CANARY}
    with dispatching.store.read() as tx:
        begun = operations.get(tx, run.run_id)
        states = [one.state for one in events.list_events(tx, run.run_id) if one.kind == "state"]
        assert states == [RunState.QUEUED]
    assert begun is not None
    assert (begun.holder, begun.state) == ("test-server", OperationState.RUNNING)
    dispatching.store.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_wrong_config_is_refused_before_anything_is_stored(dispatching: Dispatching) -> None:
    with pytest.raises(ConfigError):
        dispatching.dispatcher.create(dispatching.user(), request("no_such_key = 1"), None)

    assert all_runs(dispatching) == ()
    assert dispatching.operator.started == []


def test_every_reason_is_said_at_once(dispatching: Dispatching) -> None:
    text = config(model="nobody/has-it", train=6)

    with pytest.raises(RefusedError) as raised:
        dispatching.dispatcher.create(dispatching.user(), request(text), None)

    assert {"model", "too_big"} <= codes(raised.value)


def test_without_a_cluster_nothing_is_taken(dispatching: Dispatching) -> None:
    dispatching.clusters.found.clear()

    with pytest.raises(RefusedError, match="no cluster is up"):
        dispatching.dispatcher.create(dispatching.user(), request(config()), None)


def test_a_run_is_pinned_where_another_cluster_would_refuse_it(dispatching: Dispatching) -> None:
    dispatching.add_cluster("small", slots=1)
    user = dispatching.user()

    pinned = dispatching.dispatcher.create(user, request(config()), None)
    dispatching.add_cluster("small", slots=2)
    free = dispatching.dispatcher.create(user, request(config()), None)

    assert (pinned.cluster, free.cluster) == ("local", None)


def test_the_stack_is_made_for_the_cheapest_cluster(dispatching: Dispatching) -> None:
    dispatching.add_cluster("dear", price=2.0)
    dispatching.add_cluster("local", price=3.0)
    user = dispatching.user()
    dispatching.credit(user, 1)

    dispatching.dispatcher.create(user, request(config()), None)

    assert dispatching.operator.started[0].cluster == "dear"


def test_an_empty_wallet_pays_for_nothing_that_costs(dispatching: Dispatching) -> None:
    user = dispatching.user()
    dispatching.dispatcher.create(user, request(config()), None)
    dispatching.add_cluster("local", price=1.5)

    with pytest.raises(RefusedError) as raised:
        dispatching.dispatcher.create(user, request(config()), None)

    assert codes(raised.value) == {"wallet"}


def test_the_switch_and_the_cap_of_a_wallet_hold(dispatching: Dispatching) -> None:
    user = dispatching.user()
    with dispatching.store.write() as tx:
        wallet_id = wallet_id_of(user.user_id, None)
        wallets.set_limits(tx, wallet_id, is_on_demand_enabled=False, max_gpus_per_run=1)

    with pytest.raises(RefusedError) as raised:
        dispatching.dispatcher.create(user, request(config()), None)

    assert codes(raised.value) == {"on_demand", "gpu_cap"}


def test_ten_runs_a_user_may_wait(dispatching: Dispatching) -> None:
    ada, bob = dispatching.user(), dispatching.user("bob")
    for _ in range(10):
        dispatching.dispatcher.create(ada, request(config()), None)

    with pytest.raises(RefusedError) as raised:
        dispatching.dispatcher.create(ada, request(config()), None)
    assert dispatching.dispatcher.create(bob, request(config()), None).queue_number == 11

    assert codes(raised.value) == {"queued_runs"}


def test_a_key_makes_one_run_even_when_the_user_may_no_more(dispatching: Dispatching) -> None:
    user = dispatching.user()
    first = dispatching.dispatcher.create(user, request(config()), "key-1")
    with dispatching.store.write() as tx:
        wallets.set_limits(tx, wallet_id_of(user.user_id, None), is_on_demand_enabled=False)

    again = dispatching.dispatcher.create(user, request(config()), "key-1")

    assert again == first
    assert len(dispatching.operator.started) == 1
    with pytest.raises(ConflictError):
        dispatching.dispatcher.create(user, request(config(), image_tag="v2"), "key-1")


def test_a_volume_binds_the_run_to_its_cluster(dispatching: Dispatching, tmp_path: Path) -> None:
    dispatching.add_cluster("other")
    user, bob = dispatching.user(), dispatching.user("bob")
    new = volumes.NewVolume(
        name="shelf",
        user_id=user.user_id,
        size="1Ti",
        cluster="other",
        claim_name=str(tmp_path / "shelf"),
    )
    with dispatching.store.write() as tx:
        volume = volumes.add_volume(tx, new)
    wanted = request(config(), volume="shelf")

    with pytest.raises(RefusedError, match="PENDING"):
        dispatching.dispatcher.create(user, wanted, None)
    with dispatching.store.write() as tx:
        volumes.change_volume(tx, volume.volume_id, status=VolumeStatus.RUNNING)
    with pytest.raises(RefusedError, match="there is no volume 'shelf'"):
        dispatching.dispatcher.create(bob, wanted, None)
    run = dispatching.dispatcher.create(user, wanted, None)

    assert run.cluster == "other"
    assert run.settings == {"volume": f"volume-{volume.volume_id}"}


def test_a_server_that_ends_leaves_a_run_to_the_next(dispatching: Dispatching) -> None:
    dispatching.operator.is_closing = True
    user, wanted = dispatching.user(), request(config())

    run = dispatching.dispatcher.create(user, wanted, "key-1")

    assert all_runs(dispatching) == (run,)
    at = situation(dispatching, run)
    assert at.failed(OperationKind.MAKE)
    assert next_step(at) == Start(kind=OperationKind.MAKE)
    assert dispatching.dispatcher.create(user, wanted, "key-1") == run


def test_a_server_that_ends_takes_no_secrets_and_the_request_may_be_sent_again(
    dispatching: Dispatching,
) -> None:
    user, wanted = dispatching.user(), request(config(), secrets={"HF_TOKEN": CANARY})
    dispatching.operator.is_closing = True
    with pytest.raises(OperationBusyError):
        dispatching.dispatcher.create(user, wanted, "key-1")
    [failed] = all_runs(dispatching)
    dispatching.operator.is_closing = False

    again = dispatching.dispatcher.create(user, wanted, "key-1")

    step = next_step(situation(dispatching, failed))
    assert isinstance(step, Advance)
    assert step.state is RunState.FAILED
    assert again.run_id != failed.run_id
    assert [one.run_id for one in dispatching.operator.started] == [again.run_id]


def situation(dispatching: Dispatching, run: StoredRun) -> Situation:
    """Return what a reconciler decides on a minute later."""
    with dispatching.store.read() as tx:
        newest, now = operations.get(tx, run.run_id), read_clock(tx) + timedelta(minutes=1)
    return Situation(run=run, now=now, newest=newest)


def test_a_server_whose_lease_has_run_out_takes_no_run(dispatching: Dispatching) -> None:
    dispatcher = replace(dispatching.dispatcher, server=lambda: None)

    with pytest.raises(LostLeaseError):
        dispatcher.create(dispatching.user(), request(config()), None)

    assert all_runs(dispatching) == ()
