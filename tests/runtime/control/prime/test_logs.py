"""`prime train logs` against the API: filters, waiting for a run, and a server that says slower."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from runtime.control.rate_limit import Rate, RateLimit
from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from tests.runtime.control.api.fake_readings import LOG_TEXT, FakeReads
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.prime.client import Prime
from tests.waiting import wait_for

pytestmark = pytest.mark.control

DEADLINE_S = 120


def reads_of(api: ApiServer) -> FakeReads:
    """Return the scripted readings."""
    reads = api.services.reads
    assert isinstance(reads, FakeReads)
    return reads


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End a process with the block."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_logs_are_shown_as_levels_and_messages(api: ApiServer, prime: Prime) -> None:
    run_id = api.dispatch(prime.token)

    said = prime("train", "logs", run_id)

    assert said.code == 0
    assert re.search(r"12:00:01\s+INFO\s+Step 1 \| reward 0.5", said.out)
    assert "plain [line]" in said.out


def test_flags_are_filters_of_the_server(api: ApiServer, prime: Prime) -> None:
    run_id = api.dispatch(prime.token)
    flags = ["-c", "trainer", "--search", "step [0-9]", "--regex", "--level", "info"]

    raw = prime("train", "logs", run_id, "--raw", *flags, "--since", "15m", "-n", "7")
    env = prime("train", "logs", run_id, "--env", "reverse-text/1")

    assert raw.code == env.code == 0
    assert '"level":"INFO"' in raw.out
    assert reads_of(api).log_queries == [
        LogQuery(
            component="trainer",
            num_lines=7,
            search="step [0-9]",
            is_regex=True,
            level="INFO",
            since_s=900,
        ),
        # the client drops the number for a run of this kind
        LogQuery(component="env-server", env_name="reverse-text"),
    ]


def test_an_unknown_env_server_is_an_error_at_once(api: ApiServer, prime: Prime) -> None:
    run_id = api.dispatch(prime.token)

    said = prime("train", "logs", run_id, "--env", "pending")

    assert said.code == 1
    assert "no env server pending" in said.out


def test_a_queued_run_is_waited_for(api: ApiServer, prime: Prime) -> None:
    run_id = api.dispatch(prime.token)
    reads_of(api).log_page = LogPage(text="", has_started=False)

    with running(prime.start("train", "logs", run_id)) as process:
        wait_for(lambda: reads_of(api).log_queries, timeout_s=DEADLINE_S)
        reads_of(api).log_page = LogPage(text=LOG_TEXT)
        out, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 0
    assert "reward 0.5" in out


def test_a_client_that_follows_is_slowed_down_and_goes_on(api: ApiServer, prime: Prime) -> None:
    run_id = api.dispatch(prime.token)
    clock = [0.0]
    limit = RateLimit(Rate(burst=1, per_second=1.0), clock=lambda: clock[0])
    api.app.state.api = replace(api.app.state.api, logs_limit=limit)

    with running(prime.start("train", "logs", run_id, "-f")) as process:
        wait_for(lambda: num_refused(api) >= 1, timeout_s=DEADLINE_S)
        clock[0] += 60
        wait_for(lambda: len(reads_of(api).log_queries) == 2, timeout_s=DEADLINE_S)

        assert process.poll() is None


def num_refused(api: ApiServer) -> float:
    """Return how many questions for logs were refused."""
    text = api.client.get("/metrics").text
    found = re.search(r'route="[^"]*/logs",status="429"\} ([0-9.]+)', text)
    return float(found[1]) if found else 0.0
