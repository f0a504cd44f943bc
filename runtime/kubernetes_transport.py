"""The HTTP connection to one Kubernetes API server: kubeconfig, credentials, retries, errors.

Reads the caller's own kubeconfig ($KUBECONFIG, several files included) or a pod's service account.
Only `runtime.kubernetes_api` imports this module, and late: it loads httpx and lightkube.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, Context, User, UserExec
from lightkube.core.exceptions import ConfigError as LightkubeError

from runtime.cluster import KubernetesConnection
from runtime.errors import Problem, SettingsError
from runtime.kubernetes_call import SILENCE_S, Call
from runtime.kubernetes_errors import Asked, KubernetesError, answer_error, silence_error

IN_CLUSTER = "in-cluster"
"""Context that stands for the service account of the pod that asks."""

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECT_S = 5.0
_PAUSES_S = (0.2, 0.6, 1.5)
"""Between the tries of one request; an outage of minutes is ridden out by the caller."""

_MAX_RETRY_AFTER_S = 5.0
_BUSY = frozenset({429, 503})
"""Answers that the server gives before it does anything."""

_RETRIED = frozenset({429, 500, 502, 503, 504})


class Transport:
    """Sends calls to one API server; may be used by several threads."""

    def __init__(self, client: httpx.Client, *, name: str) -> None:
        """Send through this client; `name` is how messages call the cluster."""
        self._client = client
        self._name = name

    def send(self, call: Call) -> httpx.Response:
        """Return the answer, read to its end; raises KubernetesError for 400 and more."""
        response = self._try(call, is_streamed=False)
        if response.status_code >= 400:
            raise self.error(call, response)
        return response

    def open(self, call: Call) -> httpx.Response:
        """Return an answer that is not read yet, of any status but the retried; close it."""
        return self._try(call, is_streamed=True)

    def stream(self, call: Call) -> Iterator[bytes]:
        """Yield the body of an answer as it comes; raises KubernetesError for 400 and more."""
        response = self.open(call)
        with contextlib.closing(response):
            try:
                if response.status_code >= 400:
                    response.read()
                    raise self.error(call, response)
                yield from response.iter_bytes()
            except httpx.TransportError as error:
                raise silence_error(self._asked(call), error) from None

    def error(self, call: Call, response: httpx.Response) -> KubernetesError:
        """Return the error of an answer that was opened and read."""
        return answer_error(self._asked(call), response.status_code, response.content)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _try(self, call: Call, *, is_streamed: bool) -> httpx.Response:
        for pause_s in (*_PAUSES_S, None):
            try:
                response = self._client.send(self._request(call), stream=is_streamed)
            except httpx.TransportError as error:
                was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if pause_s is None or (was_sent and not call.is_safe):
                    raise silence_error(self._asked(call), error) from None
                time.sleep(pause_s)
                continue
            retried = _RETRIED if call.is_safe else _BUSY
            if pause_s is None or response.status_code not in retried:
                return response
            response.close()
            time.sleep(_pause_s(response, pause_s))
        raise AssertionError("the last try returns or raises")

    def _asked(self, call: Call) -> Asked:
        return replace(call.asked, cluster=self._name)

    def _request(self, call: Call) -> httpx.Request:
        headers = dict(call.headers)
        content = None
        if call.body is not None:
            content = json.dumps(call.body).encode()
            headers.setdefault("Content-Type", "application/json")
        return self._client.build_request(
            call.method,
            call.path,
            params=dict(call.params),
            content=content,
            headers=headers,
            timeout=httpx.Timeout(SILENCE_S, connect=_CONNECT_S, read=call.silence_s),
        )


def open_transport(connection: KubernetesConnection) -> Transport:
    """Return a transport to the server of a kubeconfig context; raises SettingsError."""
    try:
        config = _read_config(connection.context)
        server = config.cluster.server
        # as kubectl does, a proxy of the environment is not asked for this machine's own addresses
        trust_env = urlsplit(server).hostname not in {"127.0.0.1", "localhost", "::1"}
        return Transport(
            name=f"context {connection.context}",
            client=httpx.Client(
                base_url=server,
                verify=verify_cluster(
                    config.cluster, config.user or User(), config.abs_file, trust_env=trust_env
                ),
                auth=_auth(config),
                trust_env=trust_env,
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
            ),
        )
    except (LightkubeError, KeyError, OSError, ValueError, yaml.YAMLError) as error:
        raise _bad_context(connection.context, str(error)) from None


class ExecAuth(httpx.Auth):
    """Bearer token of a kubeconfig's exec plugin, asked again when the server refuses it.

    lightkube's own takes no plugin of client.authentication.k8s.io/v1.
    """

    def __init__(self, config: SingleConfig, plugin: UserExec) -> None:
        """Ask this plugin, which is told about the cluster."""
        self._config = config
        self._plugin = plugin
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
        plugin, cluster = self._plugin, self._config.cluster
        info: dict[str, Any] = {  # Any: a Kubernetes object
            "apiVersion": plugin.apiVersion,
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": {"server": cluster.server}},
        }
        if cluster.certificate_auth_data:
            info["spec"]["cluster"]["certificate-authority-data"] = cluster.certificate_auth_data
        environment = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        environment.update((one.name, one.value) for one in plugin.env or [])
        where = f"context {self._config.context_name}: {plugin.command}"
        try:
            done = subprocess.run(
                [plugin.command, *(plugin.args or [])],
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                check=False,
                timeout=60,
            )
            token = json.loads(done.stdout or b"{}").get("status", {}).get("token")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            kind = type(error).__name__  # its text may hold what the plugin printed
            raise KubernetesError(f"{where} gives no credential ({kind})", status=401) from None
        if done.returncode != 0 or not token:
            raise KubernetesError(
                f"{where} gives no token (exit code {done.returncode}): log in again", status=401
            )
        return str(token)


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines; memory holds one line and one piece."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"\n" not in piece:
            continue
        *whole, last = rest.split(b"\n")
        rest = bytearray(last)
        yield from (bytes(line) for line in whole if line)


def _pause_s(response: httpx.Response, default_s: float) -> float:
    given = response.headers.get("Retry-After", "")
    return min(float(given), _MAX_RETRY_AFTER_S) if given.isdigit() else default_s


def _auth(config: SingleConfig) -> httpx.Auth | None:
    if config.user is not None and config.user.exec and not config.user.token:
        return ExecAuth(config, config.user.exec)
    return user_auth(config.user) if config.user is not None else None


def _read_config(context: str) -> SingleConfig:
    if context == IN_CLUSTER:
        return _service_account()
    given = os.environ.get("KUBECONFIG") or "~/.kube/config"
    paths = [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    merged: dict[str, dict[str, Any]] = {"contexts": {}, "clusters": {}, "users": {}}
    for path in paths:
        if path.is_file():
            _merge(merged, yaml.safe_load(path.read_text()) or {}, folder=path.absolute().parent)
    lists = {key: list(found.values()) for key, found in merged.items()}
    found = KubeConfig.from_dict(lists).get(context)
    assert found is not None
    return found


def _merge(
    merged: dict[str, dict[str, Any]],
    document: Mapping[str, Any],
    *,
    folder: Path,
) -> None:
    """Add a kubeconfig's entries as kubectl does: the first of a name wins."""
    for key, singular in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
        for entry in document.get(key) or []:
            body = dict(entry.get(singular) or {})
            for name in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if body.get(name):
                    body[name] = str(folder / body[name])
            merged[key].setdefault(entry["name"], {"name": entry["name"], singular: body})


def _service_account() -> SingleConfig:
    """Return how a pod reaches its own cluster; the kubelet renews the token file."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    return SingleConfig(
        context_name=IN_CLUSTER,
        context=Context(cluster=IN_CLUSTER),
        cluster=Cluster(server=f"https://{host}:{port}", certificate_auth=str(_ACCOUNT / "ca.crt")),
        user=User(token_file=str(_ACCOUNT / "token")),
    )


def _bad_context(context: str, why: str) -> SettingsError:
    problem = Problem(
        loc=("paddock:context",),
        message=f"the kubeconfig has no usable context {context!r}: {why}",
        fix="`kubectl config get-contexts` lists them; KUBECONFIG names the file",
        code="context",
    )
    return SettingsError([problem], source="kubeconfig")
