"""Resolves an image's tag to a digest by the registry's HTTP API, once, when a run is dispatched.

All pods and later attempts then run the same image, whatever is pushed under the tag. A registry
that cannot be asked is no reason to refuse a run: the tag is kept, with a notice.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

_HUB = "docker.io"
_HUB_SERVER = "registry-1.docker.io"
_MEDIA_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TIMEOUT_S = 5.0
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedImage:
    """The reference that containers get; `notice` says why it is a tag, empty where it is none."""

    image: str
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """A user and a password for one registry, as in a Secret that pulls images."""

    user: str
    password: str

    def __repr__(self) -> str:
        """Return the type alone."""
        return "Login()"


class _RegistryError(Exception):
    pass


def tagged_image(repository: str, tag: str) -> str:
    """Return a repository with a tag, or with the digest that the tag carries."""
    _, _, digest = tag.partition("@")
    return f"{repository}@{digest}" if digest else f"{repository}:{tag}"


def resolve_image(repository: str, tag: str, logins: Mapping[str, Login]) -> ResolvedImage:
    """Return the image by its digest; by its tag, with a notice, where the registry cannot say.

    `logins` are by the registry's name as in an image: docker.io, ghcr.io.
    """
    import httpx

    tagged = tagged_image(repository, tag)
    if "@" in tagged:
        return ResolvedImage(image=tagged)
    registry, name = split_repository(repository)
    options: dict[str, Any] = {  # Any: keyword arguments of httpx.Client
        "timeout": _TIMEOUT_S,
        "follow_redirects": True,
        "verify": httpx.create_ssl_context(),  # once: else each proxy of the environment reads it
    }
    try:
        with httpx.Client(**options) as client:
            digest = _ask(client, registry, f"{name}/manifests/{tag}", logins.get(registry))
    except (httpx.HTTPError, httpx.InvalidURL, _RegistryError, ValueError) as error:
        why = str(error) or type(error).__name__
        return ResolvedImage(
            image=tagged,
            notice=f"image {tagged} is used by its tag, which may move between attempts: "
            f"{registry} gave no digest ({why})",
        )
    return ResolvedImage(image=f"{repository}@{digest}")


def split_repository(repository: str) -> tuple[str, str]:
    """Return (registry, name) of a repository, spelled as Docker spells them."""
    first, slash, rest = repository.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return first, rest
    return _HUB, repository if slash else f"library/{repository}"


def pull_logins(secrets: Iterable[Mapping[str, Any]]) -> dict[str, Login]:
    """Return the logins in Secrets of type kubernetes.io/dockerconfigjson, by registry."""
    found = {}
    for secret in secrets:
        encoded = (secret.get("data") or {}).get(".dockerconfigjson", "")
        try:
            auths = json.loads(base64.b64decode(encoded) or b"{}").get("auths", {})
            for server, entry in auths.items():
                found[_registry_of(server)] = _login(entry)
        except (ValueError, AttributeError, binascii.Error):
            continue  # not ours to judge: kubelet reads it too, and says so
    return found


def _registry_of(server: str) -> str:
    host = server.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return _HUB if host in {"index.docker.io", _HUB_SERVER, _HUB} else host


def _login(entry: Mapping[str, str]) -> Login:
    if entry.get("auth"):
        user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return Login(user=user, password=password)
    return Login(user=entry.get("username", ""), password=entry.get("password", ""))


def _ask(client: "httpx.Client", registry: str, path: str, login: Login | None) -> str:
    """Return the digest of a manifest, with a token where the registry asks for one."""
    url = f"{_server(registry)}/v2/{path}"
    headers = {"Accept": ", ".join(_MEDIA_TYPES)}
    response = client.head(url, headers=headers)
    if response.status_code == 401:
        challenge = response.headers.get("WWW-Authenticate", "")
        headers["Authorization"] = _authorization(client, challenge, login)
        response = client.head(url, headers=headers)
    if response.status_code == 404:
        raise _RegistryError("it has no such tag")
    if response.status_code >= 400:
        raise _RegistryError(f"HTTP {response.status_code}")
    digest = response.headers.get("Docker-Content-Digest", "")
    if not digest:  # a registry need not send it: the digest is that of the manifest's bytes
        body = client.get(url, headers=headers).raise_for_status().content
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    if not _DIGEST.fullmatch(digest):
        raise _RegistryError("its digest is no sha256")
    return digest


def _authorization(client: "httpx.Client", challenge: str, login: Login | None) -> str:
    scheme, _, rest = challenge.partition(" ")
    fields = dict(_CHALLENGE.findall(rest))
    auth = (login.user, login.password) if login is not None else None
    if scheme.lower() == "basic" and login is not None:
        pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        return f"Basic {pair}"
    realm = fields.pop("realm", "")
    if scheme.lower() != "bearer" or not realm:
        raise _RegistryError("it asks for a login")
    if auth is not None and not realm.startswith("https://") and not _is_loopback(realm):
        raise _RegistryError("it asks for a login without encryption")
    params = {key: value for key, value in fields.items() if key in {"service", "scope"}}
    answer = client.get(realm, params=params, auth=auth)
    if answer.status_code >= 400:
        raise _RegistryError(f"its login answers HTTP {answer.status_code}")
    found = answer.json()
    token = found.get("token") or found.get("access_token")
    if not token:
        raise _RegistryError("its login gives no token")
    return f"Bearer {token}"


def _server(registry: str) -> str:
    host = _HUB_SERVER if registry == _HUB else registry
    scheme = "http" if _is_loopback(f"http://{host}") else "https"  # as container engines do
    return f"{scheme}://{host}"


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in {"localhost", "127.0.0.1"}
