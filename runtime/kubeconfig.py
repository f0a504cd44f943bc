"""The caller's kubeconfig: which server a context means, and how the caller is known there.

Read as kubectl reads it ($KUBECONFIG, several files included), or from the service account of a
pod. Tokens of files and plugins are asked for when they are needed. Imported late, by the transport
of `runtime.kubernetes_api`: it loads httpx.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runtime.errors import Problem, SettingsError
from runtime.kubernetes_errors import KubernetesError
from runtime.light_httpx import httpx

IN_CLUSTER = "in-cluster"
"""Context that stands for the service account of the pod that asks."""

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_UNSUPPORTED_USER = ("as", "as-uid", "as-groups", "as-user-extra")
_UNSUPPORTED_CLUSTER = ("tls-server-name",)
# Keys that say who asks, or whom: without them, the question would be another's.
_PLUGIN_LIMIT_S = 60.0

Entry = Mapping[str, Any]  # Any: an entry of a kubeconfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """An API server, how its certificate is checked, and who asks."""

    url: str
    verify: ssl.SSLContext
    auth: httpx.Auth | None
    proxy: str | None = None


def read_server(context: str) -> Server:
    """Return the server of a context; raises SettingsError where the kubeconfig has none."""
    try:
        cluster, user = _service_account() if context == IN_CLUSTER else _entries(context)
        _check_supported(cluster, user)
        return Server(
            url=str(cluster["server"]),
            verify=_verify(cluster, user),
            auth=_auth(context, cluster, user),
            proxy=cluster.get("proxy-url"),
        )
    except KeyError as error:
        raise _bad_context(context, f"no {error.args[0]}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _bad_context(context, str(error)) from None


class TokenAuth(httpx.Auth):
    """A bearer token, or one in a file that somebody renews."""

    def __init__(self, *, token: str | None = None, path: str | None = None) -> None:
        """Send this token, or what the file holds at the time."""
        self._token, self._path = token, path

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with the token."""
        token = self._token
        if self._path is not None:
            try:
                token = Path(self._path).read_text().strip()
            except OSError as error:
                raise KubernetesError(f"token file {self._path}: {error.strerror}") from None
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


class PluginAuth(httpx.Auth):
    """Bearer token of a kubeconfig's exec plugin, asked again when the server refuses it."""

    def __init__(self, context: str, cluster: Entry, plugin: Entry) -> None:
        """Ask this plugin, which is told about the cluster."""
        self._context, self._cluster, self._plugin = context, cluster, plugin
        self._bearer: str | None = None
        self._lock = threading.Lock()

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the request with the token; once more with a fresh one after a 401."""
        used = self._token(refused=None)
        request.headers["Authorization"] = used
        response = yield request
        if response.status_code == 401:
            response.read()
            request.headers["Authorization"] = self._token(refused=used)
            yield request

    def _token(self, *, refused: str | None) -> str:
        with self._lock:
            if self._bearer is None or self._bearer == refused:
                self._bearer = f"Bearer {self._ask()}"
            return self._bearer

    def _ask(self) -> str:
        plugin, command = self._plugin, str(self._plugin["command"])
        spec: dict[str, Any] = {  # Any: a Kubernetes object
            "interactive": False,
            "cluster": {
                key: self._cluster[key]
                for key in ("server", "certificate-authority-data")
                if key in self._cluster
            },
        }
        info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        environment.update((one["name"], one["value"]) for one in plugin.get("env") or ())
        where = f"context {self._context}: {command}"
        try:
            done = subprocess.run(
                [command, *(plugin.get("args") or ())],
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                check=False,
                timeout=_PLUGIN_LIMIT_S,
            )
            status = json.loads(done.stdout or b"{}").get("status") or {}
            token = status.get("token")
        except (OSError, ValueError, AttributeError, subprocess.TimeoutExpired) as error:
            kind = type(error).__name__  # its text may hold what the plugin printed
            raise KubernetesError(f"{where} gives no credential ({kind})", status=401) from None
        if done.returncode == 0 and not token and status.get("clientCertificateData"):
            raise KubernetesError(
                f"{where} gives a client certificate, which paddock does not support: "
                "use a plugin that gives a token",
                status=401,
            )
        if done.returncode != 0 or not token:
            raise KubernetesError(
                f"{where} gives no token (exit code {done.returncode}): log in again", status=401
            )
        return str(token)


def _entries(context: str) -> tuple[Entry, Entry]:
    """Return the cluster and the user of a context."""
    given = os.environ.get("KUBECONFIG") or "~/.kube/config"
    merged: dict[str, dict[str, Entry]] = {"context": {}, "cluster": {}, "user": {}}
    for part in given.split(os.pathsep):
        path = Path(part).expanduser()
        if part and path.is_file():
            _merge(merged, _document(path), path.absolute().parent)
    found = merged["context"][context]
    return merged["cluster"][found["cluster"]], merged["user"].get(found.get("user", ""), {})


def _document(path: Path) -> Entry:
    """Return a kubeconfig as YAML; what it holds is in no error, it may be a token."""
    try:
        return yaml.safe_load(path.read_text()) or {}
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{path}{where}: not YAML") from None


def _merge(merged: dict[str, dict[str, Entry]], document: Entry, folder: Path) -> None:
    """Add a kubeconfig's entries as kubectl does: the first of a name wins."""
    for kind, known in merged.items():
        for entry in document.get(f"{kind}s") or ():
            body = dict(entry.get(kind) or {})
            body |= {key: str(folder / body[key]) for key in _PATHS if body.get(key)}
            known.setdefault(entry["name"], body)


def _service_account() -> tuple[Entry, Entry]:
    """Return how a pod reaches its own cluster; kubelet renews the token's file."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{host}:{port}", "certificate-authority": f"{_ACCOUNT}/ca.crt"}
    return cluster, {"tokenFile": f"{_ACCOUNT}/token"}


def _verify(cluster: Entry, user: Entry) -> ssl.SSLContext:
    given = cluster.get("certificate-authority-data")
    data = base64.b64decode(given).decode() if given else None
    path = None if data else cluster.get("certificate-authority")
    verify = ssl.create_default_context(cafile=path, cadata=data)
    if cluster.get("insecure-skip-tls-verify"):
        verify.check_hostname = False
        verify.verify_mode = ssl.CERT_NONE
    if user.get("client-certificate-data") or user.get("client-certificate"):
        with tempfile.TemporaryDirectory(prefix="paddock-") as folder:  # ssl reads files only
            verify.load_cert_chain(
                *(_file(user, key, Path(folder)) for key in ("client-certificate", "client-key"))
            )
    return verify


def _file(user: Entry, key: str, folder: Path) -> str:
    """Return the path of what a kubeconfig gives as a file or as data."""
    data = user.get(f"{key}-data")
    if not data:
        return str(user[key])
    path = folder / key
    path.touch(0o600)
    path.write_bytes(base64.b64decode(data))
    return str(path)


def _auth(context: str, cluster: Entry, user: Entry) -> httpx.Auth | None:
    if user.get("tokenFile"):
        return TokenAuth(path=user["tokenFile"])
    if user.get("token"):
        return TokenAuth(token=user["token"])
    if user.get("exec"):
        return PluginAuth(context, cluster, user["exec"])
    if user.get("username"):
        return httpx.BasicAuth(user["username"], user.get("password") or "")
    if user.get("auth-provider"):
        raise ValueError("auth-provider was removed from Kubernetes: use an exec plugin")
    return None


def _check_supported(cluster: Entry, user: Entry) -> None:
    for entry, keys in ((user, _UNSUPPORTED_USER), (cluster, _UNSUPPORTED_CLUSTER)):
        found = [key for key in keys if entry.get(key)]
        if found:
            raise ValueError(
                f"paddock does not support its {', '.join(found)}: use a context with a token, a "
                "client certificate or an exec plugin of its own, and a name that the server's "
                "certificate holds"
            )


def _bad_context(context: str, why: str) -> SettingsError:
    problem = Problem(
        loc=("paddock:context",),
        message=f"the kubeconfig has no usable context {context!r}: {why}",
        fix="`kubectl config get-contexts` lists them; KUBECONFIG names the file",
        code="context",
    )
    return SettingsError([problem], source="kubeconfig")
