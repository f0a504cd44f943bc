"""The pages: what they show, to whom, and that nothing in them is ever markup of a user's."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from runtime.control.dashboard.html import HEADERS
from runtime.control.readings import Component, LogPage
from runtime.control.requests import LogQuery
from runtime.control.store import events
from runtime.control.values import StoredRun
from runtime.errors import RunStateError, StoreError
from runtime.run_record import ExitDetails
from runtime.states import RunState
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.server import ApiServer, Person
from tests.runtime.control.pages.browser import HOME, Browser, page_of

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>[bold]{{ 7*7 }}"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&gt;&lt;img src=x onerror=alert(1)&gt;"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def reads_of(server: ApiServer) -> FakeReads:
    """Return the scripted readings."""
    reads = server.services.reads
    assert isinstance(reads, FakeReads)
    return reads


def note(server: ApiServer, run_id: str, kind: str, state: RunState | None, message: str) -> None:
    """Add to the journal of a run."""
    with server.store.write() as tx:
        events.add_event(tx, server.stored(run_id), kind, state=state, message=message)


def test_the_list_shows_a_viewers_runs_and_no_others(
    server: ApiServer, ada: Person, bob: Person, browser: Browser
) -> None:
    mine, other = server.dispatch(ada.token), server.dispatch(bob.token)

    text = browser.get(HOME).text

    assert f'href="{page_of(mine)}"' in text
    assert other not in text
    assert 'class="state QUEUED"' in text
    assert "no cluster has 2 free GPUs" in text


def test_the_list_has_pages(server: ApiServer, ada: Person, browser: Browser) -> None:
    for number in range(51):
        server.dispatch(ada.token, name=f"named-{number}")

    first, second = browser.get(HOME).text, browser.get(f"{HOME}?page=2").text

    assert "page 1 of 2" in first
    assert ">named-50<" in first
    assert ">named-0<" not in first
    assert ">named-0<" in second
    assert browser.get(f"{HOME}?page=x").status_code == 400
    assert "No runs here" in browser.get(f"{HOME}?page=9").text


def test_a_run_of_another_is_404_like_one_that_is_not(
    server: ApiServer, bob: Person, browser: Browser
) -> None:
    run_id = server.dispatch(bob.token)

    answers = [
        browser.get(path)
        for run in (run_id, "no-such-run")
        for path in (page_of(run), f"{page_of(run)}/stop")
    ]
    posted = browser.post(f"{page_of(run_id)}/stop", csrf="0" * 64)

    assert {one.status_code for one in (*answers, posted)} == {404}
    assert len({one.text for one in answers}) == 1
    assert run_id not in answers[0].text
    assert server.stored(run_id).state is RunState.QUEUED


def test_an_administrator_sees_all(server: ApiServer, bob: Person) -> None:
    _, token = server.user("root", is_admin=True)
    run_id = server.dispatch(bob.token)
    browser = Browser(server=server)
    browser.sign_in(token)

    assert browser.get(page_of(run_id)).status_code == 200


def test_a_queued_run_says_where_it_stands_and_why(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    ids = [server.dispatch(ada.token) for _ in range(3)]

    assert "next in the queue: no cluster has 2 free GPUs" in browser.get(page_of(ids[0])).text
    assert "1 run ahead in the queue" in browser.get(page_of(ids[1])).text
    assert "2 runs ahead in the queue" in browser.get(page_of(ids[2])).text


def test_the_page_of_a_run_shows_everything(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    run_id = server.dispatch(ada.token)
    server.change(
        run_id,
        {
            "state": RunState.RUNNING,
            "reason": "",
            "started_at": NOON,
            "cluster": "east",
            "gpu_type": "H200_141GB",
            "max_spend_microusd": 10_000_000,
        },
    )
    note(server, run_id, "state", RunState.RUNNING, "all components have started")
    note(server, run_id, "notice-ceiling", None, "$8.00 of its ceiling of $10.00 are spent")

    text = browser.get(page_of(run_id)).text

    for shown in (
        "H200_141GB",
        "2026-12-01 12:00:00",
        "$5.00 an hour",
        "<dd>$10.00</dd>",
        "<dd>2.00</dd>",  # GPU hours
        "3 of 100",
        "<polyline",
        "last 0.5",
        "all components have started",
        "$8.00 of its ceiling of $10.00 are spent",
        "notice: ceiling",
        "env-train-1",
        "2026-11-29T12:00:01.123Z INFO Step 1 | reward 0.5",
        "plain [line] \ufffd end",
        f'href="{page_of(run_id)}/stop"',
        'http-equiv="refresh"',
    ):
        assert shown in text, shown


def test_a_run_that_is_over_has_no_stop_and_does_not_reload(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    run_id = server.dispatch(ada.token)
    details = ExitDetails(component="trainer-0", exit_code=1, last_lines=("boom", HOSTILE))
    server.change(
        run_id,
        {
            "state": RunState.FAILED,
            "reason": "trainer-0 failed",
            "started_at": NOON,
            "ended_at": NOON + timedelta(minutes=61),
            "exit_details": details,
        },
    )

    text = browser.get(page_of(run_id)).text

    assert "How trainer-0 ended" in text
    assert "exit code 1" in text
    assert ESCAPED in text
    assert "1 h 1 min" in text
    assert "/stop" not in text
    assert "refresh" not in text
    assert "is FAILED already" in browser.get(f"{page_of(run_id)}/stop").text


def test_hostile_texts_are_shown_as_they_are(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    run_id = server.dispatch(ada.token)
    reads = reads_of(server)
    reads.log_page = LogPage(text=f"\x1b[31m{HOSTILE}\x1b[0m\n\x00\x07bell\n")
    hostile = {name: HOSTILE for name in ("name", "model", "reason", "cluster", "gpu_type")}
    server.change(run_id, {**hostile, "environments": (HOSTILE,)})
    note(server, run_id, HOSTILE, None, HOSTILE)

    pages = [browser.get(path).text for path in (HOME, page_of(run_id), f"{page_of(run_id)}/stop")]

    for text in pages:
        assert "<script" not in text
        assert "<img" not in text
        assert ESCAPED in text
        assert "49" not in text.split("[bold]", 1)[1][:12]  # no template of a user's is evaluated
    assert pages[1].count(ESCAPED) >= 7
    assert "\x1b" not in pages[1]
    assert "bell" in pages[1]


def test_what_cannot_be_read_says_so_and_the_rest_is_shown(
    server: ApiServer, ada: Person, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = server.dispatch(ada.token)

    def unreachable(self: FakeReads, run: StoredRun) -> tuple[Component, ...]:
        raise StoreError("postgres at 10.0.0.7 is away")

    def refused(self: FakeReads, run: StoredRun, query: LogQuery) -> LogPage:
        raise RunStateError("its logs are being moved")

    monkeypatch.setattr(FakeReads, "components", unreachable)
    monkeypatch.setattr(FakeReads, "usage", unreachable)
    monkeypatch.setattr(FakeReads, "logs", refused)
    answer = browser.get(page_of(run_id))

    assert answer.status_code == 200
    assert "the server cannot do this now" in answer.text
    assert "10.0.0.7" not in answer.text
    assert "its logs are being moved" in answer.text
    assert "<polyline" in answer.text


def test_a_stop_that_is_refused_says_why(
    server: ApiServer, ada: Person, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = server.dispatch(ada.token)
    path = f"{page_of(run_id)}/stop"

    def refuse(*_: object) -> StoredRun:
        raise RunStateError(f"made by hand: type `paddock stop {run_id}` <b>")

    monkeypatch.setattr(type(server.services.intents), "stop", refuse)
    answer = browser.post(path, csrf=browser.csrf(path))

    assert answer.status_code == 409
    assert f"type `paddock stop {run_id}` &lt;b&gt;" in answer.text


@pytest.mark.parametrize("path", ["/", f"{HOME}/"])
def test_what_people_type_leads_to_the_dashboard(server: ApiServer, path: str) -> None:
    answer = server.client.get(path, follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (303, HOME)


@pytest.mark.parametrize(
    "path", [HOME, "/dashboard/sign-in", "/dashboard/training/no-such-run", "/dashboard/style.css"]
)
def test_every_answer_forbids_scripts_and_frames(browser: Browser, path: str) -> None:
    headers: Mapping[str, str] = browser.get(path).headers

    policy = headers["content-security-policy"]
    assert policy == HEADERS["Content-Security-Policy"]
    assert "script" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("max-age=300" if path.endswith("css") else "no-store")


def test_a_page_never_holds_the_key(server: ApiServer, ada: Person, browser: Browser) -> None:
    run_id = server.dispatch(ada.token)

    for path in (HOME, page_of(run_id), f"{page_of(run_id)}/stop", f"{HOME}/sign-in"):
        assert ada.token not in browser.get(path).text


def test_the_pages_are_no_part_of_the_api(server: ApiServer) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]

    assert not [path for path in paths if "dashboard" in path]
