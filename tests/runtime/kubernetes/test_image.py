"""An image's tag becomes a digest by the registry's own API, or stays, with a notice."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from runtime.image import Login, pull_logins, resolve_image, split_repository, tagged_image

DIGEST = "sha256:" + "a" * 64
MANIFEST = b'{"schemaVersion": 2}'


class Registry:
    """A registry with one tag; `login` demands a user, `digest` None leaves the header out."""

    def __init__(self) -> None:
        self.port = 0
        self.digest: str | None = DIGEST
        self.login: str | None = None
        self.needs_token = True
        self.asked: list[str] = []

    def answer(self, handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(handler.path)
        given = handler.headers.get("Authorization", "")
        self.asked.append(f"{handler.command} {url.path}")
        if url.path == "/token":
            if self.login and given != f"Basic {base64.b64encode(self.login.encode()).decode()}":
                return 401, {}, b""
            scope = parse_qs(url.query)["scope"][0]
            return 200, {}, json.dumps({"token": f"for {scope}"}).encode()
        if self.needs_token and given != "Bearer for repository:team/rl:pull":
            realm = f"http://127.0.0.1:{self.port}/token"
            challenge = f'Bearer realm="{realm}",service="r",scope="repository:team/rl:pull"'
            return 401, {"WWW-Authenticate": challenge}, b""
        if url.path != "/v2/team/rl/manifests/main":
            return 404, {}, b""
        return 200, {"Docker-Content-Digest": self.digest} if self.digest else {}, MANIFEST


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Yield a registry on this machine."""
    pytest.importorskip("httpx")
    made = Registry()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            status, headers, body = made.answer(self)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_GET = do_HEAD = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def repository(registry: Registry) -> str:
    return f"127.0.0.1:{registry.port}/team/rl"


def test_a_tag_becomes_a_digest_by_an_anonymous_token(registry: Registry) -> None:
    found = resolve_image(repository(registry), "main", {})

    assert found.image == f"{repository(registry)}@{DIGEST}"
    assert found.notice == ""


def test_a_registry_without_the_header_has_its_manifest_digested(registry: Registry) -> None:
    registry.digest = None

    found = resolve_image(repository(registry), "main", {})

    digest = hashlib.sha256(MANIFEST).hexdigest()
    assert found.image == f"{repository(registry)}@sha256:{digest}"


def test_a_private_registry_is_asked_with_the_pull_secret(registry: Registry) -> None:
    registry.login = "ann:p:w"
    name = f"127.0.0.1:{registry.port}"
    auth = base64.b64encode(b"ann:p:w").decode()
    config = base64.b64encode(json.dumps({"auths": {name: {"auth": auth}}}).encode()).decode()
    logins = pull_logins([{"data": {".dockerconfigjson": config}}, {"data": {}}])

    assert "@" not in resolve_image(repository(registry), "main", {}).image
    assert resolve_image(repository(registry), "main", logins).image.endswith(DIGEST)


def test_a_tag_with_its_digest_is_asked_of_nobody(registry: Registry) -> None:
    found = resolve_image(repository(registry), f"main@{DIGEST}", {})

    assert found.image == f"{repository(registry)}@{DIGEST}"
    assert registry.asked == []


def test_a_tag_that_is_not_there_stays_with_a_notice(registry: Registry) -> None:
    found = resolve_image(repository(registry), "absent", {})

    assert found.image == f"{repository(registry)}:absent"
    assert "it has no such tag" in found.notice
    assert "which may move between attempts" in found.notice


@pytest.mark.parametrize("digest", ["nonsense", "sha256:short"])
def test_a_digest_that_is_none_is_not_believed(registry: Registry, digest: str) -> None:
    registry.digest = digest

    assert resolve_image(repository(registry), "main", {}).image.endswith(":main")


def test_a_registry_that_is_away_is_no_reason_to_refuse() -> None:
    pytest.importorskip("httpx")

    found = resolve_image("127.0.0.1:1/team/rl", "main", {})

    assert found.image == "127.0.0.1:1/team/rl:main"
    assert "127.0.0.1:1 gave no digest" in found.notice


@pytest.mark.parametrize(
    ("given", "registry", "name"),
    [
        ("primeintellect/prime-rl", "docker.io", "primeintellect/prime-rl"),
        ("python", "docker.io", "library/python"),
        ("docker.io/team/rl", "docker.io", "team/rl"),
        ("ghcr.io/team/rl", "ghcr.io", "team/rl"),
        ("localhost/rl", "localhost", "rl"),
        ("mirror:5000/a/b", "mirror:5000", "a/b"),
    ],
)
def test_a_repository_names_its_registry(given: str, registry: str, name: str) -> None:
    assert split_repository(given) == (registry, name)


def test_a_tag_with_a_digest_runs_by_the_digest() -> None:
    assert tagged_image("r", "main") == "r:main"
    assert tagged_image("r", f"main@{DIGEST}") == f"r@{DIGEST}"


def test_a_login_shows_no_password() -> None:
    assert "hunter2" not in f"{Login(user='ann', password='hunter2')!r}"
