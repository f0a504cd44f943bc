"""Who looks at a page: an API key in a cookie that no script reads and no other site can send.

The server keeps nothing of a session: a key that is revoked ends it on every replica. A form's
token is derived from the key and the form's address, so another site cannot make one up.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Response

from runtime.control.auth import Caller, ServicesDep, find_run, identify
from runtime.control.errors_http import RUN_NOT_FOUND, ForbiddenError
from runtime.control.services import Services
from runtime.control.values import StoredRun
from runtime.errors import NotFoundError, PaddockError, Problem, RefusedError

HOME = "/dashboard"
SIGN_IN = f"{HOME}/sign-in"
COOKIE = "paddock_key"
CSRF_FIELD = "csrf"
_MAX_FORM_BYTES = 8192
_MAX_FIELDS = 8
_OURS = re.compile(rf"{HOME}(/training/[a-z0-9-]{{1,64}}(/stop)?)?")
_FROM_ELSEWHERE = frozenset({"cross-site", "same-site"})


class SignInNeededError(PaddockError):
    """Nobody is signed in; `path` is where the person wanted to go."""

    code = "unauthorized"

    def __init__(self, path: str) -> None:
        """Keep the path."""
        self.path = path
        super().__init__("sign in with an API key")


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """A person who is signed in."""

    caller: Caller
    token: str = field(repr=False)

    def csrf_token(self, path: str) -> str:
        """Return the token of the form that posts to a path."""
        return hmac.new(self.token.encode(), path.encode(), hashlib.sha256).hexdigest()

    def check_csrf(self, path: str, form: Mapping[str, str]) -> None:
        """Raise ForbiddenError for a form that this viewer was not given."""
        sent = form.get(CSRF_FIELD, "").encode(errors="replace")  # as texts only ASCII compares
        if not hmac.compare_digest(self.csrf_token(path).encode(), sent):
            raise ForbiddenError("this form is out of date: load the page again")


def view(request: Request, services: ServicesDep) -> Viewer:
    """Return who is signed in. Raises SignInNeededError."""
    token = request.cookies.get(COOKIE, "")
    identity = identify(services, token)
    if identity is None:
        raise SignInNeededError(request.url.path)
    request.state.user_id = identity.user.user_id
    return Viewer(caller=Caller(identity=identity), token=token)


ViewerDep = Annotated[Viewer, Depends(view)]


def viewed_run(run_id: str, viewer: ViewerDep, services: ServicesDep) -> StoredRun:
    """Return a run that the viewer may see. Raises NotFoundError, the same for all others."""
    run = find_run(run_id, viewer.caller, services)
    if run is None:
        raise NotFoundError(RUN_NOT_FOUND)
    return run


ViewedRunDep = Annotated[StoredRun, Depends(viewed_run)]


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form. Raises ForbiddenError for one that another site has sent."""
    if request.headers.get("sec-fetch-site", "") in _FROM_ELSEWHERE:
        raise ForbiddenError("this form was sent by another site")
    body = await request.body()
    try:
        if len(body) > _MAX_FORM_BYTES:
            raise ValueError("too long")
        return dict(parse_qsl(body.decode(), max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise RefusedError([Problem(message="this is no form of the dashboard")]) from None


FormDep = Annotated[Mapping[str, str], Depends(read_form)]


def sign_in(request: Request, services: Services, token: str, response: Response) -> bool:
    """Set the cookie where a key is valid; it ends with the browser, and by sign-out."""
    if identify(services, token) is None:
        return False
    is_tls = request.url.scheme == "https"  # also behind a proxy that says so and is trusted
    response.set_cookie(COOKIE, token, path=HOME, httponly=True, samesite="strict", secure=is_tls)
    return True


def sign_out(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE, path=HOME, httponly=True, samesite="strict")


def safe_path(path: str) -> str:
    """Return a page of the dashboard: the one that is named, else the list; never another site."""
    return path if _OURS.fullmatch(path) else HOME
