"""Who asks, and what they may see: API keys, teams, and a run that is another's as if it were not.

FastAPI's dependencies of every route. A key comes as `Authorization: Bearer`; the store keeps its
hash only.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from runtime.control.errors_http import RUN_NOT_FOUND, ForbiddenError, UnauthorizedError
from runtime.control.rate_limit import RateLimit
from runtime.control.readings import Identity
from runtime.control.services import Services
from runtime.control.values import StoredRun, User
from runtime.errors import NotFoundError
from runtime.naming import is_run_id

_MAX_TOKEN_CHARS = 512
_BEARER = HTTPBearer(auto_error=False, description="an API key of `paddock key add`")


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiState:
    """What an application keeps for its routes."""

    services: Services
    dispatch_limit: RateLimit
    logs_limit: RateLimit
    notes_limit: RateLimit


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The user of a request and the user's teams."""

    identity: Identity

    @property
    def user(self) -> User:
        """Return the user."""
        return self.identity.user

    def team_for(self, team_id: str | None) -> str | None:
        """Return the team that a request acts for: the one it names, else the key's own.

        Raises ForbiddenError for a team that the caller is not in, whether there is one or not.
        """
        if team_id is None:
            return self.identity.key.team_id
        if team_id in self._team_ids:
            return team_id
        raise ForbiddenError("you are not in this team: check the team id of your configuration")

    @property
    def _team_ids(self) -> frozenset[str]:
        return frozenset(team.team_id for team in self.identity.teams)


def api_state(request: Request) -> ApiState:
    """Return what the application keeps."""
    state: ApiState = request.app.state.api
    return state


StateDep = Annotated[ApiState, Depends(api_state)]


def services_of(state: StateDep) -> Services:
    """Return the services."""
    return state.services


ServicesDep = Annotated[Services, Depends(services_of)]


def authenticate(
    request: Request,
    services: ServicesDep,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Caller:
    """Return who asks. Raises UnauthorizedError."""
    token = credentials.credentials if credentials else ""
    identity = identify(services, token)
    if identity is None:
        raise UnauthorizedError("no valid API key: send Authorization: Bearer KEY")
    request.state.user_id = identity.user.user_id
    return Caller(identity=identity)


def identify(services: Services, token: str) -> Identity | None:
    """Return whom a key stands for; no database is asked for what is no key."""
    if token and len(token) <= _MAX_TOKEN_CHARS and token.isascii() and token.isprintable():
        return services.accounts.identify(token)
    return None


CallerDep = Annotated[Caller, Depends(authenticate)]


def find_run(run_id: str, caller: Caller, services: Services) -> StoredRun | None:
    """Return a run that the caller may see; no database is asked for what is no run's id."""
    return services.runs.find(caller.user, run_id) if is_run_id(run_id) else None


def visible_run(run_id: str, caller: CallerDep, services: ServicesDep) -> StoredRun:
    """Return a run that the caller may see. Raises NotFoundError, the same for all others."""
    run = find_run(run_id, caller, services)
    if run is None:
        raise NotFoundError(RUN_NOT_FOUND)
    return run


RunDep = Annotated[StoredRun, Depends(visible_run)]


def limit_dispatch(caller: CallerDep, state: StateDep) -> None:
    """Count a dispatch. Raises RateLimitedError."""
    state.dispatch_limit.take(caller.user.user_id)


def limit_logs(caller: CallerDep, state: StateDep) -> None:
    """Count a look at logs. Raises RateLimitedError."""
    state.logs_limit.take(caller.user.user_id)


def limit_notes(caller: CallerDep, state: StateDep) -> None:
    """Count a change of a volume, or a note. Raises RateLimitedError."""
    state.notes_limit.take(caller.user.user_id)
