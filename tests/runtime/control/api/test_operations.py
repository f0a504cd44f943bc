"""Liveness, readiness, metrics, the request log, and what happens when a service breaks."""

import json
import logging
import socket
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine

from runtime.control.app import LOOPBACK, create_app, make_server
from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.errors import StoreError
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.fakes import fake_services
from tests.runtime.control.api.server import ApiServer, Person, TestClient


class BrokenReads(FakeReads):
    """Fails in the two ways that a service can: expected and not."""

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Raise what no handler expects."""
        raise ZeroDivisionError("secret inside")

    def usage(self, run: StoredRun) -> None:  # type: ignore[override]  # never returns
        """Raise what the store raises when its database is gone."""
        raise StoreError("postgresql://db.internal: gone")


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """Return the request log's lines."""
    return [
        json.loads(record.getMessage())
        for record in caplog.records
        if record.name == "paddock.api" and record.levelno == logging.INFO
    ]


def test_health_needs_no_key(server: ApiServer) -> None:
    live, ready = server.client.get("/healthz"), server.client.get("/readyz")

    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "problems": []})


def test_a_server_without_its_database_is_not_ready(server: ApiServer) -> None:
    class Gone:
        def problems(self) -> tuple[str, ...]:
            return ("the database does not answer",)

    app = create_app(replace(server.services, health=Gone()))

    answer = TestClient(app).get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["problems"] == ["the database does not answer"]


def test_metrics_count_requests_by_route_and_runs_by_state(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    server.ask("GET", f"/rft/runs/{run_id}", ada.token)
    server.client.get("/no/such/page")

    text = server.client.get("/metrics").text

    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["paddock_runs", "QUEUED"] == 1
    assert samples["paddock_http_requests_total", "GET", "/rft/runs/{run_id}", "200"] == 1
    assert samples["paddock_http_requests_total", "GET", "-", "404"] == 1
    assert run_id not in text


def test_a_request_is_one_line_with_user_and_run(
    server: ApiServer, ada: Person, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = server.dispatch(ada.token)
    caplog.set_level(logging.INFO, logger="paddock.api")

    server.ask("GET", f"/rft/runs/{run_id}/logs?search=hidden", ada.token)

    (line,) = lines_of(caplog)
    assert line["method"] == "GET"
    assert line["route"] == "/rft/runs/{run_id}/logs"
    assert line["status"] == 200
    assert (line["user"], line["run"]) == (ada.user.user_id, run_id)
    assert "hidden" not in str(lines_of(caplog))
    assert ada.token not in str(lines_of(caplog))


def test_a_bug_is_a_500_that_names_the_request(
    server: ApiServer, ada: Person, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = server.dispatch(ada.token)
    app = create_app(replace(server.services, reads=BrokenReads()))
    url = f"/api/v1/rft/runs/{run_id}/logs"

    answer = TestClient(app).get(url, headers={"Authorization": f"Bearer {ada.token}"})

    assert answer.status_code == 500
    assert answer.headers["x-request-id"] in answer.json()["detail"]
    assert "secret inside" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_a_lost_database_is_a_503_without_its_address(
    server: ApiServer, ada: Person, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = server.dispatch(ada.token)
    app = create_app(replace(server.services, reads=BrokenReads()))
    url = f"/api/v1/billing/runs/{run_id}/usage"

    answer = TestClient(app).get(url, headers={"Authorization": f"Bearer {ada.token}"})

    assert answer.status_code == 503
    assert "db.internal" not in answer.text
    assert "db.internal" in caplog.text


@pytest.mark.parametrize("path", ["/api/v1/rft/runs", "/metrics", "/dashboard"])
def test_a_database_that_is_away_is_a_503_of_every_route(
    server: ApiServer, ada: Person, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))  # and nobody listens
        url = f"postgresql+psycopg://paddock:hidden-word@{LOOPBACK}:{taken.getsockname()[1]}/none"
        away = Store(engine=create_engine(url), control_plane_id="none")
        app = create_app(fake_services(away))
        headers = {"Authorization": f"Bearer {ada.token}", "Cookie": f"paddock_key={ada.token}"}
        answer = TestClient(app, raise_server_exceptions=False).get(path, headers=headers)

    assert answer.status_code == 503
    assert "the server cannot do this now" in answer.text
    assert "onnection refused" in caplog.text
    assert "Traceback" not in caplog.text
    assert "hidden-word" not in caplog.text + answer.text


def test_no_page_of_another_origin_may_read_an_answer(server: ApiServer, ada: Person) -> None:
    headers = {"Authorization": f"Bearer {ada.token}", "Origin": "http://evil.example"}

    answer = server.client.get("/api/v1/rft/runs", headers=headers)

    assert "access-control-allow-origin" not in answer.headers


def test_the_server_listens_on_this_machine_only_unless_told(server: ApiServer) -> None:
    config = make_server(server.app).config

    assert config.host == LOOPBACK == "127.0.0.1"
    assert config.access_log is False


def test_an_error_is_json_wherever_it_comes_from(server: ApiServer, ada: Person) -> None:
    headers = {"Authorization": f"Bearer {ada.token}", "Content-Type": "application/json"}
    bodies = [b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"config": ' + b"9" * 5000 + b"}"]

    answers = [
        server.client.post("/api/v1/training/runs", content=body, headers=headers)
        for body in bodies
    ]
    wrong_method = server.client.put("/api/v1/training/runs", headers=headers)

    for answer in [*answers, wrong_method]:
        assert 400 <= answer.status_code < 500
        detail = answer.json()["detail"]
        assert isinstance(detail, str) or all(isinstance(item, dict) for item in detail)
