"""The real file server of a cluster in this process, reached as through the API server's proxy."""

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx

from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.launch.files import FilesServer, Volumes
from runtime.observe.kubernetes.run_files import RunFiles

TOKEN = "token"


class ProxyApi:
    """As much of an API server as the file server's client asks."""

    namespace = "lab"

    def __init__(self, port: int) -> None:
        """Reach this port."""
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}")
        self.is_away = False

    def list(self, kind: str, *, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the server's pod."""
        ready = {"type": "Ready", "status": "True"}
        return [{"metadata": {"name": "files-1"}, "status": {"conditions": [ready]}}]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return the Secret with the token."""
        return {"data": {"token": base64.b64encode(TOKEN.encode()).decode()}}

    def proxy(
        self,
        pod: str,
        port: int,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask the server."""
        if self.is_away:
            raise KubernetesError("the API server is away", status=503)
        request = self._client.build_request(
            "GET", f"/{quote(path)}", headers=headers, params=query
        )
        return self._client.send(request, stream=True)


@contextmanager
def run_files(volume: Path) -> Iterator[tuple[RunFiles, ProxyApi]]:
    """Serve a volume and yield the client, and the API that it goes through."""
    token = volume / "token"
    token.write_text(TOKEN)
    server = FilesServer(("127.0.0.1", 0), Volumes([volume]), token)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    api = ProxyApi(int(server.server_address[1]))
    try:
        yield RunFiles(cast("KubernetesApi", api)), api  # as much of one as is asked
    finally:
        server.shutdown()
        server.server_close()
