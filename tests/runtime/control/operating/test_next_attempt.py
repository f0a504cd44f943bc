"""A resume is judged as a dispatch is, before anything is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runtime.control.intents import StoredIntents
from runtime.control.next_attempt import NextAttempts
from runtime.control.operations import (
    OperationBusyError,
    OperationKind,
    OperationReport,
    OperationState,
    StoredOperation,
)
from runtime.control.requests import ResumeRun
from runtime.control.stack_facts import StackFacts
from runtime.control.store import operations, runs, wallets
from runtime.control.store.leases import LostLeaseError
from runtime.control.store.store import Store
from runtime.control.values import StoredRun, User, Wish, wallet_id_of
from runtime.errors import ConfigError, RefusedError, RunStateError
from runtime.plan import plan_from_json, plan_to_json
from runtime.states import RunState
from tests.runtime.control.operating.dispatching import Dispatching, config, request

BY_HAND = StackFacts(settings={"kind": "run", "cluster": "local"})


@dataclass(kw_only=True)
class Paused:
    """A paused run of a user, and what resumes it."""

    dispatching: Dispatching
    user: User
    run_id: str

    def __post_init__(self) -> None:
        store, clusters = self.dispatching.store, self.dispatching.clusters
        self.intents = StoredIntents(
            store=store,
            operator=self.dispatching.operator,
            holder="test-server",
            judge_next=NextAttempts(store=store, clusters=clusters).plan,
            stack_facts=lambda stack: BY_HAND,
        )

    def resume(self, **asked: object) -> StoredRun:
        """Resume it."""
        wanted = ResumeRun(**asked)  # type: ignore[arg-type]  # fields by name
        return self.intents.resume(self.user, self.run_id, wanted)

    def refusal(self, **asked: object) -> set[str]:
        """Return why a resume is refused; it has changed nothing."""
        with self.unchanged(), pytest.raises(RefusedError) as raised:
            self.resume(**asked)
        return {problem.code for problem in raised.value.problems}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Assert that what happens in the block changes nothing of the run and its operations."""
        before = self.stored(), self.newest(), list(self.dispatching.operator.started)
        yield
        assert (self.stored(), self.newest(), self.dispatching.operator.started) == before

    def newest(self) -> StoredOperation | None:
        """Return its newest operation."""
        with self.dispatching.store.read() as tx:
            return operations.get(tx, self.run_id)

    def stored(self) -> StoredRun:
        """Return it as it is stored."""
        with self.dispatching.store.read() as tx:
            found = runs.get_run(tx, self.run_id)
        assert found is not None
        return found

    def change(self, **changes: object) -> None:
        """Change it."""
        with self.dispatching.store.write() as tx:
            run = runs.get_run(tx, self.run_id)
            assert run is not None
            changed = runs.compare_and_set(tx, self.run_id, run.version, fence=None, **changes)
            assert changed is not None


@pytest.fixture
def paused(sqlite_store: Store, tmp_path: Path) -> Paused:
    """Return a paused run on a local cluster of four slots."""
    dispatching = Dispatching(store=sqlite_store, folder=tmp_path)
    dispatching.add_cluster("local")
    user = dispatching.user()
    run = dispatching.dispatcher.create(user, request(config(), image_tag="v1"), None)
    made = Paused(dispatching=dispatching, user=user, run_id=run.run_id)
    state = {"state": RunState.PAUSED, "wish": Wish.PAUSE, "queue_number": None}
    made.change(cluster="local", gpu_type="CPU", **state)
    done = OperationReport(
        operation_id=dispatching.operator.started[0].operation_id,
        kind=OperationKind.MAKE,
        run_id=run.run_id,
        attempt=1,
        state=OperationState.DONE,
    )
    with sqlite_store.write() as tx:
        operations.finish(tx, done)
    return made


@pytest.mark.parametrize("intent", ["pause", "restart"])
def test_an_intent_that_would_lose_all_steps_is_refused(paused: Paused, intent: str) -> None:
    plan = replace(plan_from_json(paused.stored().plan_json), checkpoints=False)
    paused.change(state=RunState.RUNNING, wish=Wish.RUN, plan_json=plan_to_json(plan))

    with paused.unchanged(), pytest.raises(RunStateError, match=f"no checkpoints, a {intent} "):
        getattr(paused.intents, intent)(paused.user, paused.run_id)


def test_what_may_run_is_queued_with_the_plan_of_its_next_attempt(paused: Paused) -> None:
    run = paused.resume(image_tag="v2", gpu_type="CPU")

    assert run == paused.stored()
    assert (run.state, run.attempt, run.cluster) == (RunState.QUEUED, 2, "local")
    assert run.settings == {"imageTag": "v2", "gpuType": "CPU"}
    plan = plan_from_json(run.plan_json)
    assert (plan.run_id, plan.attempt, plan.image_tag) == (run.run_id, 2, "v2")


def test_a_run_of_a_release_that_took_its_header_goes_on(paused: Paused) -> None:
    headers = '[orchestrator.model.client.headers]\nAuthorization = "Bearer of-then"'
    text = f"{config()}\n{headers}\n"
    with paused.dispatching.store.write() as tx:
        tx.exec_driver_sql("UPDATE runs SET config_text = ?", (text,))

    assert paused.resume().attempt == 2
    with pytest.raises(ConfigError, match="Authorization holds a credential"):
        paused.dispatching.dispatcher.create(paused.user, request(text), None)


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"gpu_type": "NO_SUCH"}, "gpu_type"), ({"image_tag": "a b;c"}, "image_tag")],
)
def test_a_bad_setting_is_refused_by_its_name(
    paused: Paused, asked: dict[str, object], code: str
) -> None:
    assert code in paused.refusal(**asked)


def test_the_wallet_and_its_switch_hold(paused: Paused) -> None:
    paused.dispatching.add_cluster("local", price=1.5)
    with paused.dispatching.store.write() as tx:
        wallet_id = wallet_id_of(paused.user.user_id, None)
        wallets.set_limits(tx, wallet_id, is_on_demand_enabled=False)

    assert paused.refusal() == {"wallet", "on_demand"}


def test_ten_runs_may_wait_and_a_resumed_one_is_one_of_them(paused: Paused) -> None:
    create = paused.dispatching.dispatcher.create
    for _ in range(9):
        create(paused.user, request(config()), None)
    tenth = paused.resume()
    paused.change(state=RunState.PAUSED, queue_number=None)
    create(paused.user, request(config()), None)

    assert tenth.state is RunState.QUEUED
    assert paused.refusal() == {"queued_runs"}


def test_a_cluster_that_is_not_up_takes_no_run(paused: Paused) -> None:
    paused.dispatching.clusters.found.clear()

    assert paused.refusal() == {"capacity"}


def test_a_run_by_hand_is_judged_but_for_the_wallet(paused: Paused) -> None:
    paused.dispatching.add_cluster("local", price=1.5)
    with paused.dispatching.store.write() as tx:
        tx.exec_driver_sql("UPDATE runs SET is_adopted = TRUE")

    assert paused.refusal(image_tag="a b;c") == {"image_tag"}
    assert paused.resume().attempt == 2


def test_new_secrets_are_set_before_the_attempt_begins(paused: Paused) -> None:
    run = paused.resume(secrets={"HF_TOKEN": "x"})

    operation = paused.dispatching.operator.started[-1]
    assert (operation.kind, operation.attempt) == (OperationKind.SET, 2)
    assert operation.secrets == {"HF_TOKEN": "x"}
    assert run.secret_names == ("HF_TOKEN",)


def test_a_server_that_ends_leaves_the_run_paused(paused: Paused) -> None:
    paused.dispatching.operator.is_closing = True

    with paused.unchanged(), pytest.raises(OperationBusyError):
        paused.resume(secrets={"HF_TOKEN": "x"})


def test_a_server_whose_lease_has_run_out_sets_no_secrets(paused: Paused) -> None:
    paused.intents = replace(paused.intents, server=lambda: None)

    with paused.unchanged(), pytest.raises(LostLeaseError):
        paused.resume(secrets={"HF_TOKEN": "x"})
