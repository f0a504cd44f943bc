"""Errors as HTTP: a status, and a body in which the `prime` client shows the reason.

That client drops the reason of a 401 and a 402, crashes on a list of texts, and reads a text in
square brackets as terminal markup except where it dispatches, pauses or resumes. So reasons are in
400, 403, 404 and 409, a list holds objects only, and brackets become parentheses elsewhere.
"""

import logging
import re
from collections.abc import Mapping, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from runtime.control.store.store import DATABASE_AWAY
from runtime.control.wire.texts import sound, without_markup
from runtime.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    PaddockError,
    Problem,
    ProblemsError,
    RunStateError,
    StackError,
    StoreError,
)
from runtime.refusals.code import Code

API = "/api/v1"
RUN_NOT_FOUND = "Run not found"
"""No id in it: the client takes a 404 that says "pending" or "queued" for a run that will start."""

_LOG = logging.getLogger(__name__)
_PRINTED_AS_IS = re.compile(rf"{API}/training/runs(/prepare|/[^/]+/(pause|resume))?")
_OF_THE_MOMENT = frozenset({Code.QUEUED_RUNS, Code.WALLET, Code.ON_DEMAND, Code.CAPACITY})
_UNAVAILABLE = 503

MAX_LISTED = 50
"""So many problems are told one by one: nobody reads more, and a client could ask for megabytes."""


class UnauthorizedError(PaddockError):
    """There is no API key, or it is unknown or revoked."""

    code = "unauthorized"


class ForbiddenError(PaddockError):
    """The user is not in the team that the request acts for."""

    code = "forbidden"


class RateLimitedError(PaddockError):
    """The user asks too often; `retry_after_s` is when the next request is taken."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        """Keep the seconds for the header."""
        self.retry_after_s = retry_after_s
        super().__init__(message)


class BusyError(RateLimitedError):
    """Too many requests wait for a part of the system, whoever asks."""

    code = "busy"


class FullError(PaddockError):
    """What the server keeps for users has its full size; an operator can make room."""

    code = "full"


_STATUSES: tuple[tuple[type[PaddockError], int], ...] = (
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (RunStateError, 409),
    (ConflictError, 409),
    (StackError, 409),
    (FullError, 409),
    (BusyError, _UNAVAILABLE),
    (RateLimitedError, 429),
    (ConfigError, 422),
    (ProblemsError, 400),
)


def status_of(error: PaddockError) -> int:
    """Return the HTTP status of an error; what the user cannot mend is 503."""
    if isinstance(error, ProblemsError) and {p.code for p in error.problems} <= _OF_THE_MOMENT:
        return 409
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), _UNAVAILABLE)


def detail_of(error: PaddockError) -> str | list[dict[str, object]]:
    """Return the `detail` of an error: one object a field for a config, else a text."""
    if isinstance(error, ConfigError):
        return [_entry(problem) for problem in _listed(error.problems)]
    if status_of(error) == _UNAVAILABLE and not isinstance(error, BusyError):
        return "the server cannot do this now; its log says why"  # paths and hosts stay in there
    if isinstance(error, ProblemsError):
        return "; ".join(map(str, _listed(error.problems)))
    return str(error)


def store_error(error: SQLAlchemyError) -> StoreError:
    """Return one of DATABASE_AWAY as ours, for the log: the driver's words, no statement."""
    said = getattr(error, "orig", None) or error
    return StoreError((str(said).strip() or type(said).__name__).splitlines()[0])


def add_error_handlers(app: FastAPI) -> None:
    """Answer every expected error of an application with its status and its reason."""

    @app.exception_handler(PaddockError)
    def _paddock(request: Request, error: PaddockError) -> Response:
        headers = {}
        if status_of(error) == _UNAVAILABLE:
            _LOG.error("%s: %s", type(error).__name__, error)
        if isinstance(error, RateLimitedError):
            headers = {"Retry-After": str(error.retry_after_s)}
        elif isinstance(error, UnauthorizedError):
            headers = {"WWW-Authenticate": "Bearer"}
        problems = error.problems if isinstance(error, ProblemsError) else ()
        return _answer(request, status_of(error), detail_of(error), headers, problems)

    def _database(request: Request, error: Exception) -> Response:
        assert isinstance(error, SQLAlchemyError), "it is registered for these alone"
        return _paddock(request, store_error(error))

    for kind in DATABASE_AWAY:
        app.add_exception_handler(kind, _database)

    @app.exception_handler(RequestValidationError)
    def _invalid(request: Request, error: RequestValidationError) -> Response:
        # only place and message: the input itself may be a secret
        found = error.errors()
        details: list[dict[str, object]] = [
            {"loc": list(item["loc"]), "msg": str(item["msg"])} for item in found[:MAX_LISTED]
        ]
        details += [{"loc": [], "msg": problem.message} for problem in _rest(len(found))]
        return _answer(request, 422, details, {})

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> Response:
        return _answer(request, error.status_code, str(error.detail), dict(error.headers or {}))


def _answer(
    request: Request,
    status: int,
    detail: str | list[dict[str, object]],
    headers: Mapping[str, str],
    problems: Sequence[Problem] = (),
) -> Response:
    if not _PRINTED_AS_IS.fullmatch(request.url.path):
        detail = _plain(detail)
    elif isinstance(detail, str):
        detail = sound(detail)
    body: dict[str, object] = {"detail": detail}
    if problems:  # paddock's own, since `detail` runs the problems of a refusal together
        body["problems"] = [_whole(problem) for problem in _listed(problems)]
    return JSONResponse(body, status_code=status, headers=headers)


def _plain(detail: str | list[dict[str, object]]) -> str | list[dict[str, object]]:
    if isinstance(detail, str):
        return without_markup(detail)
    return [
        {
            "loc": [without_markup(str(part)) for part in _parts(entry["loc"])],
            "msg": without_markup(str(entry["msg"])),
        }
        for entry in detail
    ]


def _parts(loc: object) -> list[object]:
    return loc if isinstance(loc, list) else []


def _listed(problems: Sequence[Problem]) -> Sequence[Problem]:
    return (*problems[:MAX_LISTED], *_rest(len(problems)))


def _rest(num_found: int) -> Sequence[Problem]:
    """Return a last problem that counts those which are not listed, none where all are."""
    num = num_found - MAX_LISTED
    return (Problem(message=f"and {num:,} more", code="more"),) if num > 0 else ()


def _entry(problem: Problem) -> dict[str, object]:
    fix = f" ({problem.fix})" if problem.fix else ""
    return {
        "loc": ["body", "config", *_loc(problem)],
        "msg": sound(f"{problem.message}{fix}"),
        "code": str(problem.code),
    }


def _whole(problem: Problem) -> dict[str, object]:
    return {
        "loc": _loc(problem),
        "message": sound(problem.message),
        "fix": sound(problem.fix),
        "code": str(problem.code),
    }


def _loc(problem: Problem) -> list[str | int]:
    """Return a path whose keys, which a client chose, are UTF-8."""
    return [sound(part) if isinstance(part, str) else part for part in problem.loc]
