"""The record in a ConfigMap: the semantics of the file, compare-and-set by resourceVersion."""

import threading
from collections.abc import Callable

import pytest

from runtime.errors import RunStateError
from runtime.kubernetes_api import KubernetesApi, UnreachableError
from runtime.kubernetes_record import ClusterRecord
from runtime.run_record import RecordConflictError
from runtime.states import RunState, Teardown
from tests.runtime.kubernetes.fake_api import BREAK, FakeApi

MAPS = "/api/v1/namespaces/lab/configmaps"
PATH = f"{MAPS}/paddock-record-run-one"


def begin(record: ClusterRecord, attempt: int = 1, digest: str = "d1") -> None:
    record.begin_attempt(config_digest=digest, attempt=attempt)


def test_a_transition_is_kept_with_its_reason(fake: FakeApi, record: ClusterRecord) -> None:
    begin(record)
    record.advance(RunState.FAILED, attempt=1, reason="trainer-0 exited with code 3")

    found = record.read()
    assert found is not None
    assert [change.state for change in found.times] == [RunState.QUEUED, RunState.FAILED]
    assert found.reason == "trainer-0 exited with code 3"


def test_its_labels_keep_it_out_of_a_sweep(fake: FakeApi, record: ClusterRecord) -> None:
    begin(record)

    labels = fake.objects[PATH]["metadata"]["labels"]
    assert labels == {"paddock.dev/record": "true", "paddock.dev/run": "run-one"}


def test_a_terminal_attempt_is_never_left(record: ClusterRecord) -> None:
    begin(record)
    record.advance(RunState.STOPPED, attempt=1)

    with pytest.raises(RunStateError, match="may not follow"):
        record.advance(RunState.RUNNING, attempt=1)
    with pytest.raises(RunStateError, match="paddock:attempt 2"):
        begin(record)
    begin(record, attempt=2)
    found = record.read()
    assert found is not None
    assert (found.attempt, found.state, found.version) == (2, RunState.QUEUED, 3)


def test_the_same_live_attempt_is_not_written_again(fake: FakeApi, record: ClusterRecord) -> None:
    begin(record)
    begin(record)

    assert fake.count("POST") == 1
    assert fake.count("PUT") == 0


def test_a_write_on_an_old_version_is_a_conflict(record: ClusterRecord) -> None:
    begin(record)
    record.advance(RunState.STOPPED, attempt=1)

    with pytest.raises(RecordConflictError):
        record.set_aftermath(attempt=1, teardown=Teardown.DONE, expected_version=1)
    record.set_aftermath(attempt=1, teardown=Teardown.DONE, expected_version=2)


def test_a_writer_that_came_second_reads_again(
    fake: FakeApi, record: ClusterRecord, api: KubernetesApi
) -> None:
    begin(record)
    other = ClusterRecord(api, "run-one")
    came = []

    def come_between(method: str, path: str) -> None:
        if method == "PUT" and not came:
            came.append(path)
            other.advance(RunState.CREATING, attempt=1)

    fake.on_change = come_between
    found = _without_lock(fake, lambda: record.advance(RunState.RUNNING, attempt=1))

    assert [change.state for change in found.times] == [
        RunState.QUEUED,
        RunState.CREATING,
        RunState.RUNNING,
    ]


def _without_lock(fake: FakeApi, act: Callable):
    """Let a request be answered while another one is: the second writer asks in between."""
    fake.lock = _NoLock()
    return act()


class _NoLock:
    def __enter__(self) -> None:
        """Take nothing."""

    def __exit__(self, *_: object) -> None:
        """Give nothing back."""


def test_one_of_many_writers_ends_the_run(fake: FakeApi, api: KubernetesApi) -> None:
    begin(ClusterRecord(api, "run-one"))

    def end(state: RunState) -> None:
        try:
            ClusterRecord(api, "run-one").advance(state, attempt=1)
        except RunStateError:
            return

    states = [RunState.FAILED, RunState.STOPPED, RunState.COMPLETED] * 3
    writers = [threading.Thread(target=end, args=(state,)) for state in states]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)

    found = ClusterRecord(api, "run-one").read()
    assert found is not None
    assert (len(found.times), found.version) == (2, 2)


def test_an_api_that_is_away_is_no_conflict(fake: FakeApi, record: ClusterRecord) -> None:
    begin(record)
    fake.fail("PUT", MAPS, BREAK)

    with pytest.raises(UnreachableError):
        record.advance(RunState.RUNNING, attempt=1)


def test_a_damaged_record_is_named(fake: FakeApi, record: ClusterRecord) -> None:
    fake.put(PATH, {"data": {"record.json": '{"run_id": 1}'}})

    with pytest.raises(RunStateError, match="ConfigMap paddock-record-run-one: not a run record"):
        record.read()


def test_warnings_are_kept_once(record: ClusterRecord) -> None:
    begin(record)
    record.add_warning("TRANSPORT_DEGRADED: sockets", attempt=1)
    found = record.add_warning("TRANSPORT_DEGRADED: sockets", attempt=1)

    assert found.warnings == ("TRANSPORT_DEGRADED: sockets",)


def test_the_image_is_kept_beside_the_record(fake: FakeApi, record: ClusterRecord) -> None:
    begin(record)
    record.keep_image("repo:main", "repo@sha256:1")

    assert record.read() is not None
    assert record.image("repo:main") == "repo@sha256:1"
    assert record.image("repo:other") is None
