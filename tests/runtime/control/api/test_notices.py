"""What a dispatch says besides yes: to whoever dispatched, in the run, and in its history."""

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.control import dispatcher
from runtime.control.app import create_app
from runtime.control.notices import newest_notice, notice_kind
from runtime.control.store import events
from runtime.control.store.store import Store
from runtime.states import RunState
from tests.runtime.control.api.fakes import fake_services
from tests.runtime.control.api.server import ApiServer, Person, TestClient
from tests.runtime.control.operating.dispatching import Dispatching, config
from tests.runtime.control.pages.browser import Browser, page_of

WARNING = "taskset [odd]: not known to be in the image of cluster local"


@pytest.fixture
def server(sqlite_store: Store, tmp_path: Path) -> ApiServer:
    """Serve the API with the real dispatcher, on one local cluster."""
    dispatching = Dispatching(store=sqlite_store, folder=tmp_path)
    dispatching.add_cluster("local")
    services = replace(fake_services(sqlite_store), dispatcher=dispatching.dispatcher)
    app = create_app(services)
    return ApiServer(store=sqlite_store, services=services, app=app, client=TestClient(app))


def dispatch(server: ApiServer, who: Person, key: str = "k") -> tuple[str, list[str]]:
    """Dispatch the demo and return its run and what was said."""
    headers = {"Idempotency-Key": key}
    body = {"configText": config()}
    status, answer = server.ask("POST", "/training/runs", who.token, json=body, headers=headers)
    assert status == 201, answer
    return answer["runId"], answer["notices"]


def test_how_a_file_is_read_is_said_at_dispatch_and_in_the_runs_history(
    server: ApiServer, ada: Person
) -> None:
    run_id, said = dispatch(server, ada)
    browser = Browser(server=server)
    browser.sign_in(ada.token)

    _, answer = server.ask("GET", f"/rft/runs/{run_id}", ada.token)

    assert any("the embedded engine broadcasts weights" in one for one in said)
    assert answer["run"]["notice"] is None  # it warns of nothing
    assert "the embedded engine broadcasts weights" in browser.get(page_of(run_id)).text
    assert dispatch(server, ada) == (run_id, said)  # the same words for the same request


def test_a_warning_of_admission_stays_with_the_run_until_something_newer_is_said(
    server: ApiServer, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "admission_warnings", lambda *_: [WARNING, "another"])

    run_id, said = dispatch(server, ada)
    _, first = server.ask("GET", f"/rft/runs/{run_id}", ada.token)
    with server.store.write() as tx:
        events.add_event(tx, server.stored(run_id), notice_kind("wallet"), message="80% is used")
    _, second = server.ask("GET", f"/rft/runs/{run_id}", ada.token)
    server.change(run_id, {"state": RunState.STOPPED})

    assert said[:2] == [WARNING, "another"]
    # brackets are markup to the client
    assert first["run"]["notice"] == f"{WARNING.replace('[', '(').replace(']', ')')}; another"
    assert second["run"]["notice"] == "80% is used"
    with server.store.read() as tx:
        assert newest_notice(server.stored(run_id), events.list_events(tx, run_id)) == ""
