"""The file of users' notes, and what a user is told once it is full."""

import json
from dataclasses import replace
from pathlib import Path

from runtime.control.app import create_app
from runtime.control.feedback import FeedbackFile
from runtime.control.store.store import Store
from tests.runtime.control.api.fakes import fake_services
from tests.runtime.control.api.server import GENEROUS, ApiServer, TestClient

NOTE = {"message": "more GPUs", "category": "feature", "cli_version": "0.18.0", "run_id": None}
MAX_BYTES = 1000


def taking_notes(store: Store, path: Path) -> ApiServer:
    """Return a server whose notes go into a small file."""
    feedback = FeedbackFile(path, max_bytes=MAX_BYTES)
    services = replace(fake_services(store), feedback=feedback)
    app = create_app(services, limits=GENEROUS)
    return ApiServer(store=store, services=services, app=app, client=TestClient(app))


def test_a_full_file_refuses_notes_until_it_is_moved_away(
    sqlite_store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "feedback.jsonl"
    server = taking_notes(sqlite_store, path)
    ada = server.person("ada")

    answers = [server.ask("POST", "/feedback", ada.token, json=NOTE) for _ in range(30)]

    kept = [json.loads(line) for line in path.read_text().splitlines()]
    statuses = [status for status, _ in answers]
    assert statuses == [200] * len(kept) + [409] * (30 - len(kept))
    assert kept[-1] == {
        "user": "ada@example.com",
        "category": "feature",
        "run": None,
        "message": "more GPUs",
    }
    assert path.stat().st_size <= MAX_BYTES
    detail = answers[-1][1]["detail"]
    assert "feedback.jsonl is full" in detail
    assert str(tmp_path) not in detail
    path.rename(tmp_path / "read.jsonl")
    assert server.ask("POST", "/feedback", ada.token, json=NOTE) == (200, {})
