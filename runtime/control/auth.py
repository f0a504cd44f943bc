"""Who asks, and what they may see: API keys, teams, and a run that is another's as if it were not.

FastAPI's dependencies of every route, and the class of routes that take a body. A key comes as
`Authorization: Bearer`; the store keeps its hash only.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
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
    prepare_limit: RateLimit
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
        acts_for = self.identity.key.team_id if team_id is None else team_id
        if acts_for is None or acts_for in self._team_ids:
            return acts_for
        if team_id is None:
            raise ForbiddenError(
                "you are not in the team of this API key any more: use another key"
            )
        raise ForbiddenError("you are not in this team: check the team id of your configuration")

    def check_may_continue(self, run: StoredRun) -> None:
        """Raise ForbiddenError for a next attempt at the cost of a team that the caller has left.

        Who has left still sees and ends own runs; an administrator may do all.
        """
        if run.team_id is None or run.team_id in self._team_ids or self.user.is_admin:
            return
        raise ForbiddenError(
            f"{run.run_id} is paid by a team that you are not in any more: one of its members can "
            "do this; you can stop it, and dispatch a run of your own"
        )

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
    known = getattr(request.state, "caller", None)
    if isinstance(known, Caller):
        return known  # KeyedRoute has asked
    token = credentials.credentials if credentials else ""
    identity = identify(services, token)
    if identity is None:
        raise UnauthorizedError("no valid API key: send Authorization: Bearer KEY")
    request.state.user_id = identity.user.user_id
    caller = Caller(identity=identity)
    request.state.caller = caller
    return caller


def identify(services: Services, token: str) -> Identity | None:
    """Return whom a key stands for; no database is asked for what is no key."""
    if token and len(token) <= _MAX_TOKEN_CHARS and token.isascii() and token.isprintable():
        return services.accounts.identify(token)
    return None


CallerDep = Annotated[Caller, Depends(authenticate)]


class KeyedRoute(APIRoute):
    """A route that parses no body of a stranger: FastAPI itself looks at the key after it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the look at the key before it."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_known(request: Request) -> Response:
            services, credentials = api_state(request).services, await _BEARER(request)
            await run_in_threadpool(authenticate, request, services, credentials)
            return await handle(request)

        return handle_known


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


def limit_prepare(caller: CallerDep, state: StateDep) -> None:
    """Count what comes before a dispatch, apart from it. Raises RateLimitedError."""
    state.prepare_limit.take(caller.user.user_id)


def limit_logs(caller: CallerDep, state: StateDep) -> None:
    """Count a look at logs. Raises RateLimitedError."""
    state.logs_limit.take(caller.user.user_id)


def limit_notes(caller: CallerDep, state: StateDep) -> None:
    """Count a change of a volume, or a note. Raises RateLimitedError."""
    state.notes_limit.take(caller.user.user_id)
