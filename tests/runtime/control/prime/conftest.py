"""The API on a free port, and the real `prime` client of a user on it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.control.app import make_server
from runtime.control.store.store import Store
from tests.runtime.control.api.server import ApiServer, serve
from tests.runtime.control.prime.client import Prime, prime_program

STOP_S = 60


@pytest.fixture
def api(sqlite_store: Store) -> ApiServer:
    """Make the application; `sqlite_store` closes the database behind it."""
    return serve(sqlite_store)


@pytest.fixture(scope="session")
def program() -> Path:
    """Install the client."""
    return prime_program()


@pytest.fixture
def prime(api: ApiServer, program: Path, tmp_path: Path) -> Iterator[Prime]:
    """Run the client as a user of its own."""
    _, token = api.user("ada")
    with listening(api) as url:
        yield client_of(url, token, program=program, home=tmp_path / "ada")


def client_of(url: str, token: str, *, program: Path, home: Path) -> Prime:
    """Return the client of a user."""
    home.mkdir()
    return Prime(program=program, url=url, token=token, home=home)


@contextmanager
def listening(api: ApiServer) -> Iterator[str]:
    """Serve an application, as `paddock serve` does, on a free port."""
    server = make_server(api.app)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)  # so that a client may connect before the server runs
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(STOP_S)
    assert not thread.is_alive(), "the server does not end"
