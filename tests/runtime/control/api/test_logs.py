"""Logs over HTTP: the client's flags, and the words by which it comes back for a run."""

import pytest

from runtime.control.app import ApiLimits
from runtime.control.rate_limit import Rate
from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from runtime.control.store.store import Store
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.server import ApiServer, Person, serve

START_UP_WORDS = ("queued", "pending", "starting", "not available yet")


def reads_of(server: ApiServer) -> FakeReads:
    """Return the scripted readings."""
    reads = server.services.reads
    assert isinstance(reads, FakeReads)
    return reads


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", LogQuery()),
        ("?tail_lines=5000&component=trainer", LogQuery(num_lines=5000, component="trainer")),
        ("?pod_index=1&component=inference", LogQuery(index=1, component="inference")),
        (
            "?component=env-server&env_name=reverse-text",
            LogQuery(component="env-server", env_name="reverse-text"),
        ),
        ("?search=a%5Bb&regex=true", LogQuery(search="a[b", is_regex=True)),
        ("?regex=true", LogQuery()),
        ("?level=error&since_seconds=900", LogQuery(level="ERROR", since_s=900)),
    ],
)
def test_the_flags_reach_the_reader(
    server: ApiServer, ada: Person, query: str, expected: LogQuery
) -> None:
    run_id = server.dispatch(ada.token)

    status, answer = server.ask("GET", f"/rft/runs/{run_id}/logs{query}", ada.token)

    assert status == 200
    assert answer["logs"].splitlines()[-1] == "plain [line] \ufffd end"
    assert reads_of(server).log_queries == [expected]


def test_one_env_server_of_several_has_its_own_route(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    path = f"/rft/runs/{run_id}/env-server-logs?env_name=reverse-text&env_index=1&tail_lines=7"

    status, _ = server.ask("GET", path, ada.token)

    assert status == 200
    assert reads_of(server).log_queries == [
        LogQuery(component="env-server", env_name="reverse-text", index=1, num_lines=7)
    ]


@pytest.mark.parametrize("state", ["QUEUED", "PENDING", "CREATING", "PULLING_IMAGE"])
def test_a_run_without_a_line_yet_makes_the_client_wait(
    server: ApiServer, ada: Person, state: str
) -> None:
    run_id = server.dispatch(ada.token)
    server.change(run_id, {"state": state})
    reads_of(server).log_page = LogPage(text="", has_started=False)

    status, answer = server.ask("GET", f"/rft/runs/{run_id}/logs", ada.token)

    assert status == 404
    assert any(word in answer["detail"].lower() for word in START_UP_WORDS)


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "COMPLETED", "FAILED", "STOPPED"])
def test_a_run_that_wrote_nothing_has_empty_logs(
    server: ApiServer, ada: Person, state: str
) -> None:
    run_id = server.dispatch(ada.token)
    server.change(run_id, {"state": state})
    reads_of(server).log_page = LogPage(text="", has_started=False)

    assert server.ask("GET", f"/rft/runs/{run_id}/logs", ada.token) == (200, {"logs": ""})


def test_an_unknown_env_server_ends_the_client_whatever_its_name(
    server: ApiServer, ada: Person
) -> None:
    run_id = server.dispatch(ada.token)
    path = f"/rft/runs/{run_id}/logs?component=env-server&env_name=pending-[x]"

    status, answer = server.ask("GET", path, ada.token)

    assert (status, answer["detail"]) == (400, "no env server pending-(x)")


@pytest.mark.parametrize(
    "query",
    [
        "component=sidecar",
        "component=env-server",
        "env_name=x",
        "tail_lines=0",
        "tail_lines=5001",
        "level=LOUD",
        "since_seconds=0",
    ],
)
def test_a_wrong_flag_is_refused(server: ApiServer, ada: Person, query: str) -> None:
    run_id = server.dispatch(ada.token)

    status, _ = server.ask("GET", f"/rft/runs/{run_id}/logs?{query}", ada.token)

    assert status in {400, 422}


def test_logs_are_limited_for_each_user(sqlite_store: Store) -> None:
    limits = ApiLimits(logs=Rate(burst=1, per_second=0.1))
    limited = serve(sqlite_store, limits)
    _, token = limited.user("ada")
    run_id = limited.dispatch(token)
    url = f"/api/v1/rft/runs/{run_id}/logs"
    headers = {"Authorization": f"Bearer {token}"}

    answers = [limited.client.get(url, headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert int(answers[1].headers["Retry-After"]) >= 1
    assert limited.ask("GET", f"/rft/runs/{run_id}", token)[0] == 200
