"""The trainer's /health: says that the process lives, as prime-rl's does, and no more."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from runtime.rl.views import MetricsServerView


class _Handler(BaseHTTPRequestHandler):
    """Answers GET /health."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def serve_health(config: MetricsServerView) -> int:
    """Serve until the process ends, on a thread, and return the port."""
    server = ThreadingHTTPServer((config.host, config.port), _Handler)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server.server_port
