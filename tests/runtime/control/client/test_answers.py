"""What is made of a server's answers: errors, repeats, log lines; on plain data."""

from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.client.answers import Run, read
from runtime.client.api import Api, Ask, path_of
from runtime.client.errors import (
    AwayError,
    NotNowError,
    RateLimitedError,
    ServerError,
    UnauthorizedError,
    UnreachableError,
    error_of,
)
from runtime.client.logs import LogsAsked, follow_lines, new_lines, shown_line
from runtime.client.runs import stop_run
from runtime.client.settings import Server
from runtime.errors import ConfigError, NotFoundError, PaddockError, RefusedError, SettingsError

SERVER = Server(url="http://server", api_key="pdk_canary", key_source="PADDOCK_API_KEY")
Answering = Callable[[httpx.Request], httpx.Response]

NOW = "2026-11-29T12:00:00Z"
RUN = {"id": "r", "userId": "u", "status": "RUNNING", "createdAt": NOW, "updatedAt": NOW}


def api_of(answer: Answering) -> Api:
    """Return the API of a server that answers so."""
    client = httpx.Client(base_url=SERVER.url, transport=httpx.MockTransport(answer))
    return Api(SERVER, client, pause=lambda _: None)


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, RefusedError, 2),
        (401, UnauthorizedError, 6),
        (403, UnauthorizedError, 6),
        (404, NotFoundError, 4),
        (409, NotNowError, 7),
        (413, RefusedError, 2),
        (422, ConfigError, 2),
        (429, RateLimitedError, 7),
        (500, ServerError, 1),
        (502, AwayError, 1),
        (503, AwayError, 1),
        (504, AwayError, 1),
    ],
)
def test_each_status_is_an_error_with_a_stable_exit_code(
    status: int, error: type[PaddockError], code: int
) -> None:
    found = error_of(status, {"detail": "the reason"}, source="rl.toml", retry_after_s=9)

    assert type(found) is error
    assert found.exit_code == code
    assert "the reason" in str(found)


def test_problems_keep_their_keys() -> None:
    whole = {"loc": ["orchestrator", "train", "source", 0], "message": "m", "fix": "f", "code": "c"}
    listed = {"loc": ["body", "config", "seq_len"], "msg": "is no number"}

    first = error_of(400, {"detail": "m (f)", "problems": [whole]}, source="rl.toml")
    second = error_of(422, {"detail": [listed]}, source="rl.toml")

    assert str(first) == "rl.toml: 1 problem\n  orchestrator.train.source[0]: m (f)"
    assert str(second) == "rl.toml: 1 problem\n  seq_len: is no number"


@pytest.mark.parametrize("body", [None, [], "text", {"error": 1}, {"detail": ["a", 1]}])
@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 599])
def test_any_body_is_an_error_that_can_be_shown(status: int, body: object) -> None:
    assert str(error_of(status, body, source="x"))


def test_a_page_of_a_proxy_is_no_answer() -> None:
    api = api_of(lambda _: httpx.Response(200, text="<html>"))
    moved = api_of(lambda _: httpx.Response(307, headers={"Location": "http://elsewhere"}))

    with pytest.raises(ServerError, match="is it a paddock server"):
        api.ask(Ask(path="/user/whoami"))
    with pytest.raises(ServerError, match="an address elsewhere"):
        moved.ask(Ask(path="/user/whoami"))


@pytest.mark.parametrize(
    ("ask", "num_sent"),
    [
        (Ask(path="/rft/runs"), 3),
        (Ask(method="POST", path="/training/runs", body={}, idempotency_key="k"), 3),
        (Ask(method="PUT", path="/rft/runs/r/restart"), 1),
    ],
)
def test_only_what_does_no_harm_is_repeated(ask: Ask, num_sent: int) -> None:
    keys = []

    def break_off(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("Idempotency-Key"))
        raise httpx.ReadError("broken")

    with pytest.raises(UnreachableError, match="does not answer"):
        api_of(break_off).ask(ask)

    assert keys == [ask.idempotency_key] * num_sent


def test_a_server_that_restarts_is_asked_again() -> None:
    answers = [httpx.Response(502, text="<html>"), httpx.Response(200, json={"runs": []})]

    found = api_of(lambda _: answers.pop(0)).ask(Ask(path="/rft/runs"))

    assert found == {"runs": []}


def test_no_error_holds_the_key() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(UnreachableError) as refused:
        api_of(answer).ask(Ask(path="/rft/runs"))

    assert SERVER.api_key not in str(refused.value) + repr(refused.value)
    assert refused.value.__suppress_context__


def test_a_newer_server_is_understood_and_another_is_not() -> None:
    run = read(Run, {**RUN, "newField": 1})

    assert run.status == "RUNNING"
    with pytest.raises(ServerError, match="no Run"):
        read(Run, {"id": 1})


def test_a_word_that_is_no_text_is_refused() -> None:
    api = api_of(lambda _: httpx.Response(200, json={}))

    with pytest.raises(SettingsError, match="no UTF-8 text"):
        api.ask(Ask(path="/rft/runs", query={"team_id": "\udcff"}))
    with pytest.raises(SettingsError, match="no UTF-8 text"):
        api.ask(Ask(method="POST", path="/training/runs", body={"volume": "\udcff"}))


def test_a_reason_moves_no_cursor() -> None:
    assert "\x1b" not in str(error_of(409, {"detail": "\x1b[2Jgone"}, source="x"))


def test_a_part_of_a_path_stays_one() -> None:
    assert path_of("a/../b?c", "logs") == "/a%2F..%2Fb%3Fc/logs"


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 8), st.integers(0, 8))
def test_a_window_that_moves_on_loses_no_line(log: list[str], size: int, step: int) -> None:
    lines = [f"{number} {text}" for number, text in enumerate(log)]
    before, now = lines[:size], lines[step : step + size] if step <= size else []

    new = new_lines(before, now)

    assert new == [line for line in now if line not in before]


def test_a_stop_of_a_paused_run_waits_for_its_end() -> None:
    states = iter(["PAUSED", "PAUSED", "STOPPED"])

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"run": {**RUN, "status": next(states)}})

    assert stop_run(api_of(answer), "r", pause=lambda _: None).status == "STOPPED"


def test_following_waits_and_ends_with_the_run() -> None:
    windows = iter([["a"], None, ["a", "b"], ["a", "b", "c"]])
    states = iter(["RUNNING", "RUNNING", "RUNNING", "COMPLETED"])
    told: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/logs"):
            return httpx.Response(200, json={"run": {**RUN, "status": next(states)}})
        window = next(windows)
        if window is None:
            return httpx.Response(429, json={"detail": "slower"}, headers={"Retry-After": "7"})
        return httpx.Response(200, json={"logs": "\n".join(window)})

    waits: list[float] = []
    asked = LogsAsked(run_id="r", component="trainer", tail=10)
    lines = list(follow_lines(api_of(answer), asked, say=told.append, pause=waits.append))

    assert lines == ["a", "b", "c"]
    assert waits[1] == 7.0
    assert ["slower" in line for line in told] == [True]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_following_outlives_a_restart_behind_a_proxy(status: int) -> None:
    away = [httpx.Response(status, text="<html>")] * 30
    answers = [{"logs": "a"}, *away, {"logs": "a\nb"}, {"logs": "a\nb"}]
    states = iter(["RUNNING", "RUNNING", "COMPLETED"])
    told: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers[0]
        if isinstance(found, httpx.Response):
            return answers.pop(0)  # whatever is asked for
        if not request.url.path.endswith("/logs"):
            return httpx.Response(200, json={"run": {**RUN, "status": next(states)}})
        return httpx.Response(200, json=answers.pop(0))

    asked = LogsAsked(run_id="r", component="trainer", tail=10)
    lines = list(follow_lines(api_of(answer), asked, say=told.append, pause=lambda _: None))

    assert lines == ["a", "b"]
    assert [f"{status} " in line and line.endswith("; waiting") for line in told] == [True]


def test_following_does_not_wait_for_a_server_that_never_answered() -> None:
    asked = LogsAsked(run_id="r", component="trainer", tail=10)
    follow = follow_lines(api_of(lambda _: httpx.Response(502)), asked, say=print)

    with pytest.raises(AwayError, match="http://server: 502 Bad Gateway"):
        next(follow)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            '{"timestamp": "2026-11-29T10:20:30.5Z", "level": "INFO", "message": "Step 1"}',
            "10:20:30 INFO    Step 1",
        ),
        (
            '[rank0]: {"timestamp": "x", "level": "ERROR", "message": "m", "step": 3, "exception": '
            '"Traceback\\nValueError"}',
            'x ERROR   m  {"step": 3}\n    Traceback\n    ValueError',
        ),
        ("plain [line] {not json", "plain [line] {not json"),
        ('{"reward": 1}', '{"reward": 1}'),
        ("\x1b[31mred\x1b[0m\x1b]0;title\x07 bell\x07", "red bell"),
    ],
)
def test_a_line_is_readable_and_moves_no_cursor(line: str, shown: str) -> None:
    assert shown_line(line) == shown
