"""A tiny model hub: serves a folder of models by the HTTP that huggingface_hub speaks.

Bound to the bridge of the testbed, so that pods reach it (HF_ENDPOINT); one revision, `main`, whose
commit is made from the files. A gated model wants a token.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(kw_only=True, slots=True)
class Hub:
    """The models by name, and what was asked; `gated` models need the token."""

    models: Mapping[str, Path]
    gated: frozenset[str] = frozenset()
    token: str = ""
    url: str = ""
    paths: list[str] = field(default_factory=list)

    def files(self, model: str) -> list[Path]:
        """Return the files of a model, by name."""
        return sorted(path for path in self.models[model].rglob("*") if path.is_file())

    def commit(self, model: str) -> str:
        """Return the commit of a model: a digest of its files."""
        digest = hashlib.sha1(usedforsecurity=False)
        for path in self.files(model):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()


@contextmanager
def serve_hub(hub: Hub, *, address: str) -> Iterator[Hub]:
    """Serve the hub on a free port of an address of this machine; its `url` says where."""
    server = _Server(address, hub)
    hub.url = f"http://{address}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, hub: Hub) -> None:
        self.hub = hub
        super().__init__((address, 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"  # type: ignore[assignment] # socketserver hands it its own server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self._hub.paths.append(path)
        model = next((name for name in self._hub.models if f"/{name}/" in f"{path}/"), None)
        if model is None:
            self._fail(404, "RepoNotFound", "no such model")
        elif model in self._hub.gated and not self._has_token():
            self._fail(403, "GatedRepo", "Access to this model is restricted")
        elif path.startswith("/api/models/"):
            self._api(model, path.removeprefix(f"/api/models/{model}").strip("/"))
        else:
            self._resolve(model, path)

    do_HEAD = do_GET

    @property
    def _hub(self) -> Hub:
        return self.server.hub

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {self._hub.token}"

    def _api(self, model: str, rest: str) -> None:
        verb, _, revision = rest.partition("/")
        folder = self._hub.models[model]
        if revision.partition("/")[0] not in {"", "main", self._hub.commit(model)}:
            self._fail(404, "RevisionNotFound", "no such revision")
        elif verb == "tree":
            self._send(json.dumps([_entry(folder, one) for one in self._hub.files(model)]))
        else:
            names = [_name(folder, one) for one in self._hub.files(model)]
            siblings = [{"rfilename": name} for name in names]
            info = {"id": model, "modelId": model, "sha": self._hub.commit(model), "tags": []}
            self._send(json.dumps({**info, "private": False, "siblings": siblings}))

    def _resolve(self, model: str, path: str) -> None:
        name = path.removeprefix(f"/{model}/resolve/").partition("/")[2]
        file = self._hub.models[model] / name
        if not file.is_file():
            self._fail(404, "EntryNotFound", "no such file")
            return
        body = file.read_bytes()
        self._send(body, {"ETag": f'"{_digest(body)}"', "X-Repo-Commit": self._hub.commit(model)})

    def _send(self, body: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(200)
        kind = "application/json" if isinstance(body, str) else "application/octet-stream"
        own = {"Content-Type": kind, "Content-Length": str(len(data)), "Accept-Ranges": "bytes"}
        self._finish(data, {**own, **(headers or {})})

    def _fail(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Length": "0"}
        self._finish(b"", headers)

    def _finish(self, data: bytes, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _name(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix()


def _entry(folder: Path, file: Path) -> dict[str, object]:
    body = file.read_bytes()
    return {"type": "file", "path": _name(folder, file), "size": len(body), "oid": _digest(body)}


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
