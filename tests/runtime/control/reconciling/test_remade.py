"""A stack whose making was cut off is made again, unless secrets went with it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runtime.control.engine_call import KilledError
from runtime.control.failures import INTERRUPTED, PROVISION_TIMEOUT
from runtime.control.operations import OperationKind, OperationState, StoredOperation
from runtime.control.situations import Situation
from runtime.control.start_steps import MAX_UPS
from runtime.control.step_kinds import Advance, Nothing, Start, Step
from runtime.control.steps import next_step
from runtime.control.values import StoredRun
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator
from tests.runtime.control.reconciling.site import Site

K, S = OperationKind, OperationState
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = StoredRun(
    run_id="run-1",
    user_id="u",
    name="n",
    model="m",
    config_text="",
    config_digest="d",
    plan_json="",
    num_gpus=1,
    queue_number=1,
    created_at=NOW,
    updated_at=NOW,
)
MAKE = StoredOperation(
    operation_id="op",
    kind=K.MAKE,
    run_id="run-1",
    attempt=1,
    state=S.FAILED,
    code=INTERRUPTED,
    message="the process of make died",
    cluster="east",
    holder="server-1",
    started_at=NOW,
    finished_at=NOW,
)
RECOVERED = replace(MAKE, kind=K.RECOVER, state=S.DONE, code="", recovers=K.MAKE)
AGAIN = Start(kind=K.MAKE)


def step(newest: StoredOperation, *secrets: str, after_s: float = 60.0) -> Step:
    now = NOW + timedelta(seconds=after_s)
    return next_step(Situation(run=replace(RUN, secret_names=secrets), now=now, newest=newest))


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (MAKE, AGAIN),
        (replace(MAKE, code=KilledError.code), AGAIN),
        (replace(MAKE, code="lost", is_retryable=True), AGAIN),
        (RECOVERED, AGAIN),
    ],
)
def test_a_stack_without_secrets_is_made_again(newest: StoredOperation, expected: Step) -> None:
    assert step(newest) == expected


@pytest.mark.parametrize("newest", [MAKE, RECOVERED])
def test_a_run_whose_secrets_were_lost_fails(newest: StoredOperation) -> None:
    found = step(newest, "WANDB_API_KEY")

    assert isinstance(found, Advance)
    assert found.state is RunState.FAILED


@pytest.mark.parametrize(
    "newest",
    [
        replace(MAKE, code="stack", message="the backend is full"),
        replace(MAKE, num_tries=MAX_UPS),
        replace(MAKE, code="operation_busy"),
        replace(MAKE, code=PROVISION_TIMEOUT, message="provision-timeout: it hung"),
    ],
)
def test_what_fails_for_good_is_not_made_again(newest: StoredOperation) -> None:
    assert step(newest) == Advance(state=RunState.FAILED, reason=newest.message)


def test_the_next_try_waits() -> None:
    assert step(MAKE, after_s=1.0) == Nothing()


def test_a_stack_that_is_made_again_is_what_it_was_to_be(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.held.add(K.MAKE)
    site.dispatch("run-1", cluster=None, secret_names=(), config_text="text", settings={"a": 1})
    with site.store.write() as tx:
        tx.exec_driver_sql("UPDATE operations SET holder = 'dead', cluster = 'east'")
    del operator.reports["run-1"]

    operator.held.clear()
    operator.held.add(K.UP)
    site.pass_until(lambda: K.UP in operator.of("run-1"))
    made = operator.of("run-1")

    assert made == [K.MAKE, K.RECOVER, K.MAKE, K.UP]
    assert operator.made["run-1"].cluster == "east"
    assert operator.made["run-1"].settings == {
        "a": 1,
        "configText": "text",
        "cluster": "east",
        "controlPlane": site.store.control_plane_id,
    }
