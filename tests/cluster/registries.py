"""Registries that the testbed's containerd asks: one without an image, one that does not answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REGISTRY_PORT = 9  # `render_registry` of the testbed sends containerd there


@contextmanager
def serve_empty_registry() -> Iterator[None]:
    """Be a registry that has no image."""
    with _serving(_no_wait):
        yield


@contextmanager
def serve_silent_registry() -> Iterator[Callable[[], None]]:
    """Be a registry that takes every request and answers none; yield what makes it answer.

    What it answers is that it has no image.
    """
    may_answer = threading.Event()
    with _serving(may_answer.wait):
        try:
            yield may_answer.set
        finally:
            may_answer.set()


def _no_wait() -> None:
    """Answer at once."""


@contextmanager
def _serving(wait: Callable[[], object]) -> Iterator[None]:
    class Handler(_NoImage):
        before = staticmethod(wait)

    server = ThreadingHTTPServer(("127.0.0.1", REGISTRY_PORT), Handler)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class _NoImage(BaseHTTPRequestHandler):
    """Answers 404 as a registry does for a tag that it does not know, after `before`."""

    before: Callable[[], object]

    def do_GET(self) -> None:
        """Answer."""
        self.before()
        body = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
