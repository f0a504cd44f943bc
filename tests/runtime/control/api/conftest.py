"""A server and two users who know nothing of each other."""

from dataclasses import dataclass

import pytest

from runtime.control.store.store import Store
from runtime.control.values import User
from tests.runtime.control.api.server import ApiServer, serve


@dataclass(frozen=True, kw_only=True)
class Person:
    """A user with an API key."""

    user: User
    token: str


@pytest.fixture
def server(store: Store) -> ApiServer:
    """Serve the API, on both databases."""
    return serve(store)


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
