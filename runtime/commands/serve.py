"""`paddock serve`: the control plane on this machine: the HTTP API and the loops behind it."""

import json
import logging
import os
import signal
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, opened
from runtime.commands.session import find_project
from runtime.control.operations import DRAIN_S, OPERATION_S, OperatorLimits

_HOST = "127.0.0.1"
_PORT = 8899
REQUEST_LOGGER = "paddock.api"
"""Name of the request log, whose lines are JSON already; its module is one of the server's."""

_log = logging.getLogger(__name__)

WorkersOption = Annotated[
    int, typer.Option(min=1, max=64, help="operations of the engine at a time")
]
DrainOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=OPERATION_S,
        envvar="PADDOCK_DRAIN",
        help="seconds that operations under way get once this is ended; then they go on alone",
    ),
]
EndOperationsOption = Annotated[
    bool,
    typer.Option(
        "--end-operations",
        envvar="PADDOCK_END_OPERATIONS",
        help="interrupt them then, once each: for a container, in which nothing goes on alone",
    ),
]


def serve(
    host: Annotated[
        str, typer.Option(help="address to listen on; another one than loopback needs a TLS proxy")
    ] = _HOST,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="port; 0: a free one")] = _PORT,
    database: DatabaseOption = None,
    workers: WorkersOption = 4,
    drain: DrainOption = DRAIN_S,
    end_operations: EndOperationsOption = False,
) -> None:
    """Serve the API of `prime`, and run what is dispatched until SIGTERM."""
    limits = OperatorLimits(num_workers=workers, drain_s=drain, ends_operations=end_operations)
    write_log_as_json()
    with ExitStack() as parts:
        store = parts.enter_context(opened(database))
        # loaded here, since the other commands start without the server's libraries
        from runtime.control.app import create_app, listen, make_server
        from runtime.control.assembly import running

        listener = parts.enter_context(listen(host, port))
        plane = parts.enter_context(
            running(store, checkout=find_project(), environ=os.environ, limits=limits)
        )
        server = make_server(create_app(plane.services), host=host, port=port)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signal again at its end: then it has been heard
            signal.signal(number, lambda *_: None)
        address = f"http://{host}:{listener.getsockname()[1]}"
        _log.info("paddock serves %s from %s", address, store.name)
        server.run([listener])
        _log.info(ending(limits))


def ending(limits: OperatorLimits) -> str:
    """Return what is said when no more work is taken."""
    then = "are interrupted" if limits.ends_operations else "go on by themselves"
    return f"ending: no more work is taken; after {limits.drain_s:g} s operations under way {then}"


def write_log_as_json() -> None:
    """Write every log line as one JSON object on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(json_lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in ("alembic", "httpx", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)


def json_lines() -> logging.Formatter:
    """Return the formatter of the server's log."""
    return _JsonLines()


class _JsonLines(logging.Formatter):
    """One line of JSON a record, with the run that it is about where its logger was told.

    The request log's message is an object, and merged into the line.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
        }
        message = record.getMessage()
        if record.name == REQUEST_LOGGER and message.startswith("{"):
            line |= json.loads(message)
        else:
            line["message"] = message
            if isinstance(run := getattr(record, "run", None), str):
                line["run"] = run
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
