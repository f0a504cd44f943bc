"""A server, two users, and a browser in which the first one is signed in."""

import pytest

from runtime.control.store.store import Store
from tests.runtime.control.api.conftest import Person
from tests.runtime.control.api.server import ApiServer, serve
from tests.runtime.control.pages.browser import Browser


@pytest.fixture
def server(sqlite_store: Store) -> ApiServer:
    """Serve the API and its pages."""
    return serve(sqlite_store)


@pytest.fixture
def ada(server: ApiServer) -> Person:
    """Return a user."""
    user, token = server.user("ada")
    return Person(user=user, token=token)


@pytest.fixture
def bob(server: ApiServer) -> Person:
    """Return another user."""
    user, token = server.user("bob")
    return Person(user=user, token=token)


@pytest.fixture
def browser(server: ApiServer, ada: Person) -> Browser:
    """Return a browser in which ada is signed in."""
    made = Browser(server=server)
    assert made.sign_in(ada.token).status_code == 303
    return made
