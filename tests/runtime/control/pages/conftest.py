"""A server, and a browser in which a user is signed in."""

import pytest

from runtime.control.store.store import Store
from tests.runtime.control.api.server import ApiServer, Person, serve
from tests.runtime.control.pages.browser import Browser


@pytest.fixture
def server(sqlite_store: Store) -> ApiServer:
    """Serve the API and its pages."""
    return serve(sqlite_store)


@pytest.fixture
def browser(server: ApiServer, ada: Person) -> Browser:
    """Return a browser in which ada is signed in."""
    made = Browser(server=server)
    assert made.sign_in(ada.token).status_code == 303
    return made
