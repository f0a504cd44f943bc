"""The supervisor's socket works at any length of path, and its messages keep a secret."""

import threading
from pathlib import Path

import pytest

from runtime.errors import RunStateError
from runtime.local_state import LocalRun, create_state
from runtime.supervisor_wire import (
    DescribeRequest,
    Refused,
    StartRequest,
    UnreachableError,
    ask,
    listen,
)


@pytest.fixture
def run(tmp_path: Path) -> LocalRun:
    state = tmp_path / ("long" * 30) / ("path" * 30)
    create_state(state, devices=("",))
    return LocalRun(state_path=state, run_path=tmp_path / "run", run_id="run-one", attempt=1)


def test_a_path_longer_than_a_socket_address_connects(run: LocalRun):
    listener = listen(run)
    reply = Refused(code="state", message="it is over").model_dump_json().encode() + b"\n"

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            connection.recv(4096)
            connection.sendall(reply)

    thread = threading.Thread(target=answer)
    thread.start()

    with pytest.raises(RunStateError, match="it is over"):
        ask(run, DescribeRequest(), timeout_s=10)
    thread.join(10)


def test_a_socket_that_nobody_listens_on_is_unreachable(run: LocalRun):
    listen(run).close()

    with pytest.raises(UnreachableError, match="does not answer"):
        ask(run, DescribeRequest(), timeout_s=1)


def test_a_request_never_shows_its_secrets():
    request = StartRequest(component="trainer-0", secret_env={"API_KEY": "canary"})

    with pytest.raises(ValueError, match="string") as caught:
        StartRequest.model_validate({"component": "x", "secret_env": {"API_KEY": ["canary"]}})

    assert "canary" not in repr(request) + str(caught.value) + repr(caught.value)
