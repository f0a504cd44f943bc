"""A server on both databases; its users are in the conftest of the folder above."""

import pytest

from runtime.control.store.store import Store
from tests.runtime.control.api.server import ApiServer, serve


@pytest.fixture
def server(store: Store) -> ApiServer:
    """Serve the API, on both databases."""
    return serve(store)
