"""A Kubernetes API in this process: objects by path, resource versions, and faults on demand.

For what a real server does not do when asked: to break off, to answer 503, to conflict. What the
real API does with a manifest is tested on a real cluster.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from runtime.cluster import KubernetesConnection
from runtime.kubernetes_api import KINDS, KubernetesApi

BREAK = 0
"""Status of a fault that closes the connection without an answer."""

Manifest = dict[str, Any]
Fault = tuple[str, str, int, Manifest]


@dataclass(kw_only=True, slots=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(kw_only=True, slots=True)
class FakeApi:
    """The objects by path, what was asked, and the faults that come before an answer."""

    port: int = 0
    objects: dict[str, Manifest] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    streams: dict[str, list[bytes]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    on_change: Callable[[str, str], None] | None = None
    version: int = 100
    lock: AbstractContextManager[Any] = field(default_factory=threading.RLock)

    def fail(self, method: str, part: str, status: int, *, times: int = 1, **body: object) -> None:
        """Answer the next requests of a method and a part of the path with this status."""
        self.faults += [(method, part, status, body)] * times

    def put(self, path: str, manifest: Manifest) -> None:
        """Put an object there as if somebody else had."""
        with self.lock:
            self.version += 1
            metadata = {
                "uid": f"uid-{self.version}",
                **manifest.get("metadata", {}),
                "name": path.rpartition("/")[2],
                "resourceVersion": str(self.version),
            }
            self.objects[path] = {**manifest, "metadata": metadata}

    def paths(self, part: str = "") -> list[str]:
        """Return the paths of the objects that are there."""
        with self.lock:
            return sorted(path for path in self.objects if part in path)

    def count(self, method: str, part: str = "") -> int:
        """Count the requests of a method."""
        return sum(one.method == method and part in one.path for one in self.requests)

    def answer(self, request: Request) -> tuple[int, Any]:
        """Return status and body of an answer."""
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                method, part, status, body = fault
                if method == request.method and part in request.path:
                    self.faults.remove(fault)
                    return status, failure(status, **body)
            if self.on_change is not None:
                self.on_change(request.method, request.path)
            return getattr(self, f"_{request.method.lower()}")(request)

    def _get(self, request: Request) -> tuple[int, Any]:
        path = request.path
        if path in self.objects:
            return 200, self.objects[path]
        is_absent = any(part in path for part in self.absent)
        if is_absent or path.rpartition("/")[2] not in _PLURALS:
            return 404, failure(404, reason="NotFound", message=f"{path} not found")
        items = [one for at, one in self.objects.items() if at.rpartition("/")[0] == path]
        items = [one for one in items if _matches(one, request.query.get("labelSelector", ""))]
        first = int(request.query.get("continue", "0"))
        last = first + int(request.query.get("limit", "1000"))
        metadata = {"resourceVersion": str(self.version)}
        if last < len(items):
            metadata["continue"] = str(last)
        kind = _PLURALS[path.rpartition("/")[2]]
        body = {"apiVersion": kind.version, "kind": f"{kind.name}List", "metadata": metadata}
        return 200, {**body, "items": items[first:last]}

    def _post(self, request: Request) -> tuple[int, Any]:
        path = f"{request.path}/{request.body['metadata']['name']}"
        if path in self.objects:
            return 409, failure(409, reason="AlreadyExists", message="already exists")
        self.put(path, request.body)
        return 201, self.objects[path]

    def _put(self, request: Request) -> tuple[int, Any]:
        before = self.objects.get(request.path)
        if before is None:
            return 404, failure(404, reason="NotFound", message="not found")
        asked = request.body["metadata"].get("resourceVersion")
        if asked is not None and asked != before["metadata"]["resourceVersion"]:
            return 409, failure(409, reason="Conflict", message="the object has been modified")
        self.put(request.path, request.body)
        return 200, self.objects[request.path]

    def _patch(self, request: Request) -> tuple[int, Any]:
        self.put(request.path, _merged(self.objects.get(request.path, {}), request.body))
        return 200, self.objects[request.path]

    def _delete(self, request: Request) -> tuple[int, Any]:
        found = self.objects.get(request.path)
        if found is None:
            return 404, failure(404, reason="NotFound", message="not found")
        uid = ((request.body or {}).get("preconditions") or {}).get("uid")
        if uid is not None and uid != found["metadata"]["uid"]:
            return 409, failure(409, reason="Conflict", message="another uid")
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = "2026-11-30T10:00:00Z"
        else:
            del self.objects[request.path]
        return 200, {"kind": "Status", "status": "Success"}


def failure(status: int, **body: object) -> Manifest:
    """Return a Status object."""
    return {"kind": "Status", "status": "Failure", "code": status, **body}


@contextmanager
def serve_fake_api(folder: Path) -> Iterator[tuple[FakeApi, KubernetesApi, Path]]:
    """Yield the fake, a client of it in namespace lab, and the kubeconfig of its context `fake`."""
    fake = FakeApi()
    server = _Server(("127.0.0.1", 0), _handler(fake))
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    kubeconfig = write_kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{fake.port}")
    api = connect(kubeconfig)
    try:
        yield fake, api, kubeconfig
    finally:
        api.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients that go away are part of the tests."""


def connect(kubeconfig: Path, *, namespace: str = "lab") -> KubernetesApi:
    """Return a client of a kubeconfig's context `fake`."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig))
        return KubernetesApi.connect(KubernetesConnection(context="fake", namespace=namespace))


def write_kubeconfig(path: Path, server: str, *, user: Mapping[str, Any] | None = None) -> Path:
    """Write a kubeconfig with the one context `fake`."""
    document = {
        "contexts": [{"name": "fake", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": dict(user or {"token": "a-token"})}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


_PLURALS = {kind.plural: kind for kind in KINDS.values()}


def _matches(manifest: Manifest, selector: str) -> bool:
    """Tell whether an object has the labels: `key=value`, `key in (value,value)`."""
    labels = manifest["metadata"].get("labels", {})
    parts = re.findall(r"(?:[^,(]|\([^)]*\))+", selector)
    wanted = [part.partition(" in " if " in " in part else "=") for part in parts]
    return all(labels.get(key) in values.strip("()").split(",") for key, _, values in wanted)


def _merged(before: Manifest, patch: Manifest) -> Manifest:
    """Return an object after a merge patch."""
    after = dict(before)
    for key, value in patch.items():
        if isinstance(value, dict):
            after[key] = _merged(before.get(key) or {}, value)
        elif value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def _handler(fake: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet: no wait for an acknowledgement

        def _serve(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            request = Request(
                method=self.command,
                path=url.path,
                query={key: values[-1] for key, values in parse_qs(url.query).items()},
                body=json.loads(raw) if raw else None,
                headers=dict(self.headers),
            )
            if url.path in fake.streams:
                self._stream(fake.streams[url.path])
                return
            status, body = fake.answer(request)
            if status == BREAK:
                self.close_connection = True
                return
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, pieces: list[bytes]) -> None:
            """Send pieces; `...` breaks the connection off in the middle."""
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in pieces:
                if piece == b"...":
                    self.close_connection = True
                    return
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler
