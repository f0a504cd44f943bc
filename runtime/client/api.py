"""One server's API over HTTP: sends a request, repeats it where that does no harm, reads its JSON.

What may be repeated: a request that only reads, and a dispatch under an Idempotency-Key. Anything
else is sent again only where no connection was made.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import quote

import httpx

from runtime.client.errors import (
    AWAY,
    ServerError,
    UnauthorizedError,
    UnreachableError,
    error_of,
)
from runtime.client.settings import Server
from runtime.errors import PaddockError, Problem, SettingsError

API = "/api/v1"
READ_S = 30.0
DISPATCH_S = 120.0
"""How long a dispatch may take to answer; a proxy before the server has to wait as long."""

_CONNECT_S = 10.0
_WAITS_S = (0.5, 1.5)
"""Pauses before the second and the third try: a server that restarts is back by then."""
_REPEAT_WITHIN_S = 60.0
_NONE: Mapping[str, str] = MappingProxyType({})

Json = dict[str, object]
Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A request; `path` is relative to the API, `source` is what its problems are named after."""

    method: str = "GET"
    path: str
    query: Query = field(default_factory=dict)
    body: Mapping[str, object] | None = field(default=None, repr=False)
    idempotency_key: str | None = None
    read_s: float = READ_S
    source: str = ""

    @property
    def is_repeatable(self) -> bool:
        """Tell whether a second one does nothing that the first did not."""
        return self.method == "GET" or self.idempotency_key is not None


class Api:
    """The API of a server, as one user sees it."""

    def __init__(
        self,
        server: Server,
        client: httpx.Client,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Keep the connection."""
        self.server = server
        self._client = client
        self._pause = pause

    def ask(self, ask: Ask) -> Json:
        """Return the JSON object of an answer, {} where there is none.

        Raises UnreachableError, UnauthorizedError, NotFoundError, RefusedError, ConfigError,
        NotNowError and ServerError; SettingsError for a word that is no UTF-8 text.
        """
        try:
            response = self._send(ask)
        except UnicodeEncodeError:
            problem = Problem(message="an argument is no UTF-8 text")
            raise SettingsError([problem], source=ask.source or "request") from None
        if response.status_code == 204:
            return {}
        body = _json(response)
        if response.is_success and isinstance(body, dict):
            return body
        raise self._error(ask, response, body)

    def _send(self, ask: Ask) -> httpx.Response:
        started = time.monotonic()
        waits = list(_WAITS_S)
        while True:
            try:
                response = self._send_once(ask)
            except httpx.RequestError as error:
                is_early = time.monotonic() - started < _REPEAT_WITHIN_S
                if not (waits and is_early and (ask.is_repeatable or _is_unsent(error))):
                    raise self._unreachable(ask, error) from None
            else:
                if not (waits and ask.is_repeatable and response.status_code in AWAY):
                    return response
            self._pause(waits.pop(0))

    def _send_once(self, ask: Ask) -> httpx.Response:
        key = ask.idempotency_key
        return self._client.request(
            ask.method,
            API + ask.path,
            params={name: value for name, value in ask.query.items() if value is not None},
            json=ask.body,
            headers={"Idempotency-Key": key} if key is not None else None,
            timeout=httpx.Timeout(ask.read_s, connect=_CONNECT_S),
        )

    def _error(self, ask: Ask, response: httpx.Response, body: object) -> PaddockError:
        url, status = self.server.url, response.status_code
        if status < 400:
            what = "an address elsewhere" if response.is_redirect else "no JSON object"
            return ServerError(f"{url} answers {status} with {what}: is it a paddock server?")
        error = error_of(
            status, body, source=ask.source or "request", retry_after_s=_retry_after_s(response)
        )
        if status == 401:
            return UnauthorizedError(
                f"{url} does not take the API key of {self.server.key_source}: "
                f"{self.server.other_key}"
            )
        return type(error)(f"{url}: {error}") if isinstance(error, ServerError) else error

    def _unreachable(self, ask: Ask, error: httpx.RequestError) -> UnreachableError:
        url = self.server.url
        if _is_unsent(error):
            reason = str(error) or "no connection"
            return UnreachableError(
                f"{url} cannot be reached ({reason}): is the server running, and the address right?"
            )
        is_late = isinstance(error, httpx.TimeoutException)
        how = f"nothing within {ask.read_s:.0f} s" if is_late else f"the connection broke ({error})"
        then = ""
        if ask.idempotency_key is not None:
            then = "; the same command again makes no second run"
        elif ask.method != "GET":
            then = "; whether it was done is not known, so look before you repeat it"
        return UnreachableError(f"{url} does not answer: {how}{then}")


@contextmanager
def open_api(server: Server) -> Iterator[Api]:
    """Connect to a server; this machine is asked directly, whatever proxy is set."""
    with httpx.Client(
        base_url=server.url,
        headers={"Authorization": f"Bearer {server.api_key}", "User-Agent": "paddock"},
        trust_env=not server.is_loopback,
        follow_redirects=False,  # the key is for this server
    ) as client:
        yield Api(server, client)


def path_of(*parts: str) -> str:
    """Return a path of the API from its parts, each escaped."""
    return "".join(f"/{quote(part, safe='', errors='replace')}" for part in parts)


def rows(body: Json, key: str) -> Sequence[object]:
    """Return a list of an answer, empty where the server says none."""
    found = body.get(key)
    return found if isinstance(found, list) else ()


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError:  # a page of a proxy, or bytes that are no UTF-8
        return None


def _is_unsent(error: httpx.RequestError) -> bool:
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _retry_after_s(response: httpx.Response) -> int:
    text = response.headers.get("Retry-After", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
