"""The outermost layer of the API: one line of JSON a request, its metrics, and the last resort.

A line holds method, route, status, milliseconds, user and run: fixed fields only, so neither a
header, a query nor a body can get into a log. Whatever no handler expects ends here, as a 500 that
names the request.
"""

import json
import logging
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.naming import is_run_id

LOGGER = logging.getLogger("paddock.api")
UNKNOWN_ROUTE = "-"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Counts requests by route and times them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the two metrics."""
        self._requests = Counter(
            "paddock_http_requests",
            "Requests answered",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "paddock_http_request_seconds", "Time to answer", ["route"], registry=registry
        )

    def observe(self, *, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(elapsed_s)


class RequestLog:
    """An ASGI layer that logs and counts each request, and answers an unexpected error."""

    def __init__(self, app: ASGIApp, *, metrics: RequestMetrics) -> None:
        """Keep the application below."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, whatever becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})
        started = time.monotonic()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:  # the process boundary: one request's bug must not end the server
            LOGGER.exception("request %s failed", request_id)
            if status == 0:
                detail = f"internal error; the server's log has request {request_id}"
                await JSONResponse({"detail": detail}, 500)(scope, receive, watched)
        finally:
            self._note(scope, request_id, status or 499, time.monotonic() - started)

    def _note(self, scope: Scope, request_id: str, status: int, elapsed_s: float) -> None:
        route = getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else UNKNOWN_ROUTE
        self._metrics.observe(method=method, route=route, status=status, elapsed_s=elapsed_s)
        line = {
            "request": request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(elapsed_s * 1000, 1),
            **_who(scope["state"], scope.get("path_params") or {}),
        }
        LOGGER.info(json.dumps(line))


def _who(
    state: MutableMapping[str, Any],  # Any: Starlette's state is untyped
    path_params: MutableMapping[str, Any],  # Any: so are its path parameters
) -> dict[str, str]:
    """Return the user and the run of a request, as far as they are known."""
    found = {}
    if isinstance(state.get("user_id"), str):
        found["user"] = state["user_id"]
    run_id = state.get("run_id") or path_params.get("run_id")
    if isinstance(run_id, str) and is_run_id(run_id):
        found["run"] = run_id
    return found
