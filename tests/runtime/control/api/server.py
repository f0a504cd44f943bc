"""An application on a store of its own, with users who have keys, for tests of the API."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from runtime.control.app import ApiLimits, create_app
from runtime.control.rate_limit import Rate
from runtime.control.services import Services
from runtime.control.store import keys, runs, users
from runtime.control.store.store import Store
from runtime.control.values import StoredRun, Team, User
from tests.runtime.control.api.fakes import fake_services, seed_config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2, which nothing else needs
    from fastapi.testclient import TestClient

API = "/api/v1"
_MANY = Rate(burst=100_000, per_second=1000)
GENEROUS = ApiLimits(dispatch=_MANY, logs=_MANY, notes=_MANY)


@dataclass(frozen=True, kw_only=True)
class Person:
    """A user with an API key."""

    user: User
    token: str


@dataclass(kw_only=True)
class ApiServer:
    """An application, its store, and the ways to ask it."""

    store: Store
    services: Services
    app: FastAPI
    client: TestClient

    def user(self, name: str, *, is_admin: bool = False) -> tuple[User, str]:
        """Make a user and return the user with an API key."""
        email = f"{name}@example.com"
        with self.store.write() as connection:
            user = users.add_user(connection, name=name, email=email, is_admin=is_admin)
            _, token = keys.add_key(connection, user_id=user.user_id, name="test")
        return user, token

    def person(self, name: str) -> Person:
        """Make a user who has an API key."""
        user, token = self.user(name)
        return Person(user=user, token=token)

    def team(self, name: str, *members: User) -> Team:
        """Make a team."""
        with self.store.write() as connection:
            team = users.add_team(connection, name=name)
            for member in members:
                users.add_member(connection, team.team_id, member.user_id)
        return team

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        **options: Any,  # noqa: ANN401 - as httpx' own
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of an answer, {} for none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        answer = self.client.request(method, f"{API}{path}", headers=headers, **options)
        return answer.status_code, answer.json() if answer.content else {}

    def dispatch(self, token: str, **fields: object) -> str:
        """Dispatch the seed's run and return its id."""
        body = {"config": seed_config(), **fields}
        status, answer = self.ask("POST", "/training/runs", token, json=body)
        assert status == 201, answer
        return answer["runId"]

    def stored(self, run_id: str) -> StoredRun:
        """Return a run as it is stored."""
        with self.store.read() as connection:
            run = runs.get_run(connection, run_id)
        assert run is not None
        return run

    def change(self, run_id: str, changes: Mapping[str, object]) -> None:
        """Change fields of a stored run."""
        version = self.stored(run_id).version
        with self.store.write() as connection:
            assert runs.compare_and_set(connection, run_id, version, **changes) is not None


def serve(store: Store, limits: ApiLimits = GENEROUS) -> ApiServer:
    """Return an application on an open store."""
    services = fake_services(store)
    app = create_app(services, limits=limits)
    return ApiServer(store=store, services=services, app=app, client=TestClient(app))
