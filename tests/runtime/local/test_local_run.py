"""A run of two-second programs from start_run to its last process.

Plain `pytest` takes four of these tests; the crash stage takes the rest, which wait for processes.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime import ports
from runtime import supervisor_client as client
from runtime.errors import NotFoundError, RefusedError, RunStateError, SupervisorError
from runtime.states import RunState
from tests.runtime.local.local_runs import ENDLESS, Local, programs
from tests.waiting import wait_for


def test_a_run_goes_from_queued_to_completed_and_leaves_nothing(local: Local):
    run = local.up()

    record = local.until_over(run)

    assert [change.state for change in record.times] == [
        RunState.QUEUED,
        RunState.PENDING,
        RunState.CREATING,
        RunState.RUNNING,
        RunState.COMPLETED,
    ]
    wait_for(lambda: not local.leftovers(run))


@pytest.mark.crash
def test_starting_again_is_a_no_op_while_the_run_lives(local: Local):
    run = local.run()
    request = local.request(run, programs(**ENDLESS), num_slots=4)

    first = client.start_run(request)
    component = client.start_component(run, "trainer-0", {})
    second = client.start_run(request)

    assert first == second
    assert client.start_component(run, "trainer-0", {}) == component
    assert client.component_is_alive(component)
    with pytest.raises(RunStateError, match="another config"):
        client.start_run(local.request(run, programs(**ENDLESS), num_slots=4, digest="d2"))


def test_a_run_that_does_not_fit_is_refused_and_leaves_no_record(local: Local):
    run = local.run("run-two")

    with pytest.raises(RefusedError, match="needs 5 slots, 4 of 4 are free"):
        client.start_run(local.request(run, num_slots=5))

    assert not run.directory.record.exists()


def test_a_component_that_fails_ends_the_run_and_is_named(local: Local):
    failing = "import sys; print('out of tokens'); sys.exit(3)"

    run = local.up(programs(env_train_math=failing, **ENDLESS))

    record = local.until_over(run)
    assert record.state is RunState.FAILED
    assert record.reason == "env-train-math exited with code 3"
    assert record.exit is not None
    assert record.exit.component == "env-train-math"
    assert record.exit.exit_code == 3
    assert record.exit.last_lines == ("out of tokens",)
    wait_for(lambda: not local.leftovers(run))


@pytest.mark.crash
def test_an_orchestrator_that_says_nothing_has_not_completed(local: Local):
    run = local.up(programs(orchestrator="pass"))

    record = local.until_over(run)

    assert record.state is RunState.FAILED
    assert "at no step of 3 and without its end mark" in record.reason


@pytest.mark.crash
def test_all_steps_done_is_completed_without_the_end_mark(local: Local):
    codes = programs(orchestrator="open('metrics.jsonl', 'w').write('{\"step\": 3}\\n')")

    record = local.until_over(local.up(codes))

    assert record.state is RunState.COMPLETED


@pytest.mark.crash
def test_stopping_ends_every_process_before_it_is_said(local: Local):
    run = local.up(programs(**ENDLESS))

    record = client.stop_run(run, reason="asked for")

    assert (record.state, record.reason) == (RunState.STOPPED, "asked for")
    assert not local.leftovers(run)


@pytest.mark.crash
def test_a_terminal_attempt_is_refused_and_the_next_one_starts(local: Local):
    run = local.up(programs(**ENDLESS))
    client.release_run(run)
    again = local.run(attempt=2)

    with pytest.raises(RunStateError, match=r"destroyed while live.*paddock:attempt 2"):
        client.start_run(local.request(run))
    with pytest.raises(RunStateError, match="paddock resume run-one"):
        client.start_component(run, "trainer-0", {})
    client.start_run(local.request(again))

    assert local.record(again).attempt == 2


@pytest.mark.crash
def test_stopping_an_old_attempt_spares_the_new_one(local: Local):
    client.release_run(local.up(programs(**ENDLESS)))
    again = local.run(attempt=2)
    client.start_run(local.request(again))

    client.stop_component(local.run(attempt=1))
    client.release_run(local.run(attempt=1))

    assert local.record(again).state is RunState.PENDING
    assert client.capacity(local.run("run-two")).num_free == 2


def test_releasing_what_never_started_bars_it(local: Local):
    run = local.run()

    client.release_run(run)
    client.release_run(run)

    with pytest.raises(RunStateError, match="attempt 1 was destroyed"):
        client.check_start(local.request(run))


@pytest.mark.crash
def test_a_component_that_is_not_planned_is_refused(local: Local):
    run = local.run()
    client.start_run(local.request(run))

    with pytest.raises(NotFoundError, match="no component judge: it has inference-0"):
        client.start_component(run, "judge", {})


@pytest.mark.crash
def test_a_run_that_cannot_be_prepared_fails_with_the_reason(local: Local):
    run = local.run()
    client.start_run(local.request(run))
    (run.directory.configs / "programs.json").write_text("{")

    with pytest.raises(SupervisorError, match="cannot be prepared: JSONDecodeError"):
        client.start_component(run, "trainer-0", {})

    assert local.until_over(run).state is RunState.FAILED


@pytest.mark.crash
def test_an_update_that_was_interrupted_does_not_hold_the_slots(local: Local):
    run = local.run()
    client.start_run(local.request(run, programs(**ENDLESS), timeout_s=1.0))
    client.start_component(run, "inference-0", {})

    record = local.until_over(run)

    assert record.state is RunState.FAILED
    assert "did not start env-train-math, orchestrator, trainer-0 within 1 s" in record.reason
    wait_for(lambda: not local.leftovers(run))


@pytest.mark.crash
def test_ports_are_held_until_their_component_starts(local: Local):
    run = local.run()
    handle = client.start_run(local.request(run, programs(**ENDLESS)))
    block = range(handle.base_port, handle.base_port + 4)
    assert not any(ports.is_free(port) for port in block)

    component = client.start_component(run, "trainer-0", {})

    assert [port for port in block if ports.is_free(port)] == list(component.ports)
    client.release_run(run)
    assert all(ports.is_free(port) for port in block)


@pytest.mark.crash
def test_concurrent_runs_share_the_machine(local: Local):
    show = "import os, time; print(os.environ['PORT'], flush=True); time.sleep(600)"
    codes = programs(inference_0=show, **ENDLESS)

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda run_id: local.up(codes, run_id=run_id), ["run-a", "run-b"]))

    claims = json.loads((local.state / "claims.json").read_text())
    assert sorted(slot for claim in claims for slot in claim["slots"]) == [0, 1, 2, 3]
    logs = [run.directory.logs(1) / "inference-0.log" for run in runs]
    wait_for(lambda: all(log.exists() and log.read_text() for log in logs))
    assert logs[0].read_text() != logs[1].read_text()
    for run in runs:
        client.release_run(run)
        assert not local.leftovers(run)
