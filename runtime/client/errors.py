"""What a server's answer means to its caller: an error of a stable exit code, with every reason.

Pure: from a status and a body. The server's own reasons are in the body's `problems`, and in its
`detail`, which older clients read.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from runtime.client.printable import printable
from runtime.errors import (
    ConfigError,
    NotFoundError,
    PaddockError,
    Problem,
    ProblemsError,
    RefusedError,
)

AWAY = frozenset({502, 503, 504})
"""What a proxy answers for a server that restarts, and a server whose database is away."""

_MAX_SHOWN_CHARS = 2000
_IN_BODY = ("body", "config")
"""Where a server finds a field; the caller knows the rest, which is the path in the file."""


class UnreachableError(PaddockError):
    """The server cannot be reached, or does not answer."""

    code = "unreachable"
    exit_code = 5


class UnauthorizedError(PaddockError):
    """There is no API key, the server does not know it, or the user is not in the team."""

    code = "unauthorized"
    exit_code = 6


class NotNowError(ProblemsError):
    """The moment does not allow it: the run's state, a taken name, the queue, the wallet."""

    code = "not_now"
    exit_code = 7


class RateLimitedError(NotNowError):
    """The server wants fewer requests; `retry_after_s` is when it takes the next one."""

    code = "rate_limited"

    def __init__(self, problem: Problem, *, source: str, retry_after_s: int) -> None:
        """Keep the seconds."""
        self.retry_after_s = retry_after_s
        super().__init__([problem], source=source)


class ServerError(PaddockError):
    """The server failed, or what answers is no paddock server."""

    code = "server"


class AwayError(ServerError):
    """The server, or what it needs, is away for now: one of AWAY; it may come back."""


_REFUSALS: Mapping[int, type[ProblemsError]] = {
    400: RefusedError,
    409: NotNowError,
    413: RefusedError,
    422: ConfigError,
}


def error_of(status: int, body: object, *, source: str, retry_after_s: int = 1) -> PaddockError:
    """Return the error that an answer of 300 or more means; `source` is what was asked for.

    A body that is no object with a `detail` came from a proxy or another program.
    """
    if not isinstance(body, Mapping) or "detail" not in body:
        return _foreign(status)
    problems = _problems(body)
    text = "; ".join(map(str, problems))
    if status == 429:
        return RateLimitedError(problems[0], source=source, retry_after_s=retry_after_s)
    if status in {401, 403}:
        return UnauthorizedError(text)
    if status == 404:
        return NotFoundError(text)
    if status in _REFUSALS:
        return _REFUSALS[status](problems, source=source)
    return _server_error(status)(f"the server answers {status}: {text}")


def _server_error(status: int) -> type[ServerError]:
    return AwayError if status in AWAY else ServerError


def _foreign(status: int) -> PaddockError:
    if status == 401:
        return UnauthorizedError("the server, or a proxy before it, wants other credentials")
    phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else ""
    why = (
        "a proxy does not reach the server behind it; is it running, and the address right?"
        if status in AWAY
        else "what answers is no paddock server, or a proxy before one; is the address right?"
    )
    return _server_error(status)(f"{f'{status} {phrase}'.strip()} and no reason: {why}")


def _problems(body: Mapping[object, object]) -> list[Problem]:
    """Return the problems of an answer, one at least."""
    whole, detail = body.get("problems"), body["detail"]
    if isinstance(whole, Sequence) and not isinstance(whole, str):
        found = [_problem(item, message="message") for item in whole if isinstance(item, Mapping)]
        if found:
            return found
    if isinstance(detail, Sequence) and not isinstance(detail, str):
        found = [_problem(item, message="msg") for item in detail if isinstance(item, Mapping)]
        if found:
            return found
    return [Problem(message=_shown(detail))]


def _problem(item: Mapping[object, object], *, message: str) -> Problem:
    loc = item.get("loc")
    parts = tuple(
        part if isinstance(part, int) else str(part)
        for part in (loc if isinstance(loc, Sequence) and not isinstance(loc, str) else ())
    )
    for name in _IN_BODY:
        parts = parts[1:] if parts[:1] == (name,) else parts
    return Problem(
        loc=parts,
        message=_shown(item.get(message, "is wrong")),
        fix=_shown(item.get("fix", "")),
        code=_shown(item.get("code", "invalid")),
    )


def _shown(value: object) -> str:
    return printable(str(value)[:_MAX_SHOWN_CHARS])
