"""The record is written once per transition, by one writer at a time."""

import multiprocessing
from pathlib import Path

import pytest

from runtime.errors import RunStateError
from runtime.record import (
    RecordConflictError,
    advance,
    begin_attempt,
    read_record,
    set_aftermath,
)
from runtime.states import RunState, Teardown


def begin(path: Path, attempt: int = 1, digest: str = "d1") -> None:
    begin_attempt(path, run_id="run-one", config_digest=digest, attempt=attempt)


def test_a_transition_is_kept_with_its_time_and_reason(tmp_path: Path):
    path = tmp_path / "record.json"

    begin(path)
    advance(path, RunState.FAILED, attempt=1, reason="trainer-0 exited with code 3")

    record = read_record(path)
    assert record is not None
    assert [change.state for change in record.times] == [RunState.QUEUED, RunState.FAILED]
    assert record.times[-1].reason == "trainer-0 exited with code 3"
    assert record.outcome is RunState.FAILED


def test_a_terminal_attempt_is_never_left(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)
    advance(path, RunState.COMPLETED, attempt=1)

    with pytest.raises(RunStateError, match="may not follow"):
        advance(path, RunState.RUNNING, attempt=1)
    with pytest.raises(RunStateError, match="paddock:attempt 2"):
        begin(path)


def test_a_new_attempt_keeps_the_history_and_begins_queued(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)
    advance(path, RunState.STOPPED, attempt=1)

    begin(path, attempt=2)

    record = read_record(path)
    assert record is not None
    assert (record.attempt, record.state) == (2, RunState.QUEUED)
    assert [change.attempt for change in record.times] == [1, 1, 2]


def test_a_live_attempt_refuses_a_new_one_unless_it_was_preempted(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)

    with pytest.raises(RunStateError, match="still QUEUED"):
        begin(path, attempt=2)

    record = begin_attempt(path, run_id="run-one", config_digest="d1", attempt=2, preempted=True)
    assert record.reason == "preempted"


def test_another_config_of_a_live_attempt_is_refused(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)

    with pytest.raises(RunStateError, match="another config"):
        begin(path, digest="d2")


def test_a_write_on_an_old_version_is_a_conflict(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)
    advance(path, RunState.STOPPED, attempt=1)

    with pytest.raises(RecordConflictError):
        set_aftermath(path, attempt=1, teardown=Teardown.RUNNING, expected_version=1)

    after = set_aftermath(path, attempt=1, teardown=Teardown.RUNNING, expected_version=2)
    assert after.teardown is Teardown.RUNNING


def test_a_damaged_record_is_named(tmp_path: Path):
    path = tmp_path / "record.json"
    path.write_text('{"run_id": 1}')

    with pytest.raises(RunStateError, match=r"record\.json: not a run record"):
        read_record(path)


def _end(path: Path, state: RunState) -> None:
    try:
        advance(path, state, attempt=1)
    except RunStateError:
        return


def test_one_of_many_writers_ends_the_run(tmp_path: Path):
    path = tmp_path / "record.json"
    begin(path)
    context = multiprocessing.get_context("fork")
    states = [RunState.FAILED, RunState.STOPPED, RunState.COMPLETED] * 3

    writers = [context.Process(target=_end, args=(path, state)) for state in states]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(10)

    record = read_record(path)
    assert record is not None
    assert len(record.times) == 2
    assert record.version == 2
