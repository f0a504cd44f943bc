"""The HTTP API of the control plane as an application, and the server that it runs in.

`create_app` takes the services that do the work, so that a test gives it others. It speaks what the
unmodified `prime` client 0.18 asks for; `docs/api.md` lists it.
"""

import errno
import os
import socket
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from runtime.control.auth import ApiState
from runtime.control.body_limit import BodyLimit
from runtime.control.dashboard import routes as dashboard
from runtime.control.errors_http import API, add_error_handlers
from runtime.control.rate_limit import DISPATCH_RATE, LOGS_RATE, NOTES_RATE, Rate, RateLimit
from runtime.control.request_log import RequestLog, RequestMetrics
from runtime.control.routes import (
    account,
    catalog,
    logs,
    monitoring,
    operations,
    runs,
    training,
    volumes,
)
from runtime.control.services import Services
from runtime.errors import Problem, SettingsError
from runtime.limits import MAX_CONFIG_BYTES, MAX_SECRETS_TOTAL_BYTES

MAX_BODY_BYTES = 3 * (MAX_CONFIG_BYTES + MAX_SECRETS_TOTAL_BYTES)
"""The largest config and secrets with room for JSON's escapes."""

MAX_SMALL_BODY_BYTES = 256 * 1024
"""The longest note, of 16,384 characters, with each escaped in JSON by 12 bytes."""

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8899
_GRACE_S = 10
_BACKLOG = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiLimits:
    """How much a client may ask."""

    dispatch: Rate = DISPATCH_RATE
    logs: Rate = LOGS_RATE
    notes: Rate = NOTES_RATE
    max_body_bytes: int = MAX_BODY_BYTES


def create_app(services: Services, *, limits: ApiLimits = ApiLimits()) -> FastAPI:
    """Return the application. There is no CORS: no page of another origin is to call it."""
    app = FastAPI(
        title="paddock",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    registry = CollectorRegistry()
    registry.register(operations.RunCollector(services.runs))
    app.state.metrics = registry
    app.state.api = ApiState(
        services=services,
        dispatch_limit=RateLimit(limits.dispatch),
        prepare_limit=RateLimit(limits.dispatch),
        logs_limit=RateLimit(limits.logs),
        notes_limit=RateLimit(limits.notes),
    )
    add_error_handlers(app)
    for module in (training, runs, logs, monitoring, catalog, volumes, account):
        app.include_router(module.router, prefix=API)
    app.include_router(operations.router)
    app.include_router(dashboard.router)
    app.add_middleware(
        BodyLimit, max_bytes=MAX_SMALL_BODY_BYTES, max_large_bytes=limits.max_body_bytes
    )
    app.add_middleware(RequestLog, metrics=RequestMetrics(registry))  # last added = outermost
    return app


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens already, so that no client comes too early; 0 = a free port.

    Raises SettingsError for an address that is taken or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        known = error.errno if error.errno in errno.errorcode else None
        reason = os.strerror(known) if known else error.strerror  # without the address again
        is_taken = known == errno.EADDRINUSE
        problem = Problem(
            loc=("--port" if is_taken or known == errno.EACCES else "--host",),
            message=f"cannot listen on {host} port {port}: {reason}",
            fix="another server? --port 0 takes a free one" if is_taken else "",
        )
        raise SettingsError([problem], source="serve") from None


def make_server(app: FastAPI, *, host: str = LOOPBACK, port: int = DEFAULT_PORT) -> uvicorn.Server:
    """Return the server of an application; `run` serves until a signal, then lets requests end.

    Its own access log is off: it would write queries, and `request_log` says the rest.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
