"""What a destroy writes into the record of a run that is over, and what else leaves it alone."""

import pytest

from runtime import supervisor_client as client
from runtime.local_state import LocalRun
from runtime.record import advance, begin_attempt, read_record
from runtime.run_rules import destroy_run, end_attempt
from runtime.states import RunState, Teardown
from tests.runtime.local.local_runs import Local


def begin(run: LocalRun, *states: RunState) -> None:
    path = run.directory.record
    begin_attempt(path, run_id=run.run_id, config_digest="d1", attempt=run.attempt)
    for state in states:
        advance(path, state, attempt=run.attempt)


def inputs(run: LocalRun) -> dict[str, object]:
    return {
        "statePath": str(run.state_path),
        "runPath": str(run.run_path),
        "runId": run.run_id,
        "attempt": run.attempt,
    }


@pytest.mark.parametrize("state", [RunState.PENDING, RunState.FAILED])
def test_a_destroy_is_done_once_the_run_is_over(local: Local, state: RunState):
    run = local.run()
    begin(run, state)

    destroy_run(inputs(run))
    first = local.record(run)
    destroy_run(inputs(run))

    assert first.is_over
    assert first.teardown is Teardown.DONE
    assert local.record(run) == first


def test_a_stop_and_a_later_attempt_are_no_destroy(local: Local):
    stopped, ended = local.run("run-one"), local.run("run-two")
    begin(stopped)
    begin(ended)

    client.stop_run(stopped, reason="asked to")
    end_attempt(inputs(ended), reason="ended for attempt 2")

    assert [local.record(run).state for run in (stopped, ended)] == [RunState.STOPPED] * 2
    assert [local.record(run).teardown for run in (stopped, ended)] == [Teardown.NONE] * 2


def test_destroying_an_old_attempt_spares_the_record_of_the_new_one(local: Local):
    begin(local.run(), RunState.FAILED)
    begin(local.run(attempt=2), RunState.FAILED)

    destroy_run(inputs(local.run(attempt=1)))

    assert local.record(local.run()).teardown is Teardown.NONE


def test_a_destroy_without_a_record_or_a_cluster_ends_well(local: Local):
    run = local.run()
    destroy_run(inputs(run))
    assert read_record(run.directory.record) is None

    begin(run, RunState.FAILED)
    destroy_run({**inputs(run), "statePath": str(local.state / "gone")})

    assert local.record(run).teardown is Teardown.DONE
