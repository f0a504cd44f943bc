"""The API on a free port of this machine, and `paddock` as a user of it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.control.store.store import Store
from tests.runtime.control.api.server import ApiServer, Person, serve
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.prime.conftest import listening

SEED = Path(__file__).parents[4] / "examples" / "reverse-text.toml"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a home of its own, and none of the caller's settings."""
    for name in [name for name in os.environ if name.startswith(("PADDOCK_", "PRIME_"))]:
        if name not in {"PADDOCK_CACHE", "PADDOCK_SKIP"}:
            monkeypatch.delenv(name)
    path = tmp_path / "home"
    monkeypatch.setenv("PADDOCK_HOME", str(path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def api(sqlite_store: Store) -> ApiServer:
    """Make the application."""
    return serve(sqlite_store)


@pytest.fixture
def url(api: ApiServer) -> Iterator[str]:
    """Serve it."""
    with listening(api) as address:
        yield address


@pytest.fixture
def ada(api: ApiServer) -> Person:
    """Return a user."""
    return api.person("ada")


@pytest.fixture
def paddock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Paddock:
    """Run the command in this process, with no server named."""
    return Paddock(monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture
def as_ada(paddock: Paddock, url: str, ada: Person, monkeypatch: pytest.MonkeyPatch) -> Paddock:
    """Run the command as a user of the server."""
    monkeypatch.setenv("PADDOCK_SERVER", url)
    monkeypatch.setenv("PADDOCK_API_KEY", ada.token)
    return paddock


@pytest.fixture
def run_id(as_ada: Paddock) -> str:
    """Dispatch the hosted service's example."""
    return as_ada.train(str(SEED), "-o", "json").json()["run"]["runId"]


@pytest.fixture
def unused_url() -> str:
    """Return an address of this machine at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
