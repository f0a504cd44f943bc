"""The HTTP connection to one Kubernetes API server: retries, streams, errors.

Only `runtime.kubernetes_api` imports this module, and late: it loads httpx. Which server it is, and
who asks, is `runtime.kubeconfig`'s.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from runtime.cluster import KubernetesConnection
from runtime.kubeconfig import read_server
from runtime.kubernetes_call import SILENCE_S, Call
from runtime.kubernetes_errors import Asked, KubernetesError, answer_error, silence_error
from runtime.light_httpx import httpx

_CONNECT_S = 5.0
_PAUSES_S = (0.2, 0.6, 1.5)
"""Between the tries of one request; an outage of minutes is ridden out by the caller."""

_MAX_RETRY_AFTER_S = 5.0
_BUSY = frozenset({429, 503})
"""Answers that the server gives before it does anything."""

_RETRIED = frozenset({429, 500, 502, 503, 504})


class _Body(httpx.SyncByteStream):
    """The body of an answer, whose breaking off is an error of the API like any other."""

    def __init__(self, stream: httpx.SyncByteStream, asked: Asked) -> None:
        self._stream, self._asked = stream, asked

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except httpx.TransportError as error:
            raise silence_error(self._asked, error) from None

    def close(self) -> None:
        self._stream.close()


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
        """Return an answer that is not read yet, of any status but the retried; close it.

        What breaks off while it is read raises KubernetesError.
        """
        response = self._try(call, is_streamed=True)
        assert isinstance(response.stream, httpx.SyncByteStream), "the client is not asynchronous"
        response.stream = _Body(response.stream, self._asked(call))
        return response

    def stream(self, call: Call) -> Iterator[bytes]:
        """Yield the body of an answer as it comes; raises KubernetesError for 400 and more."""
        response = self.open(call)
        with contextlib.closing(response):
            if response.status_code >= 400:
                response.read()
                raise self.error(call, response)
            yield from response.iter_bytes()

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
    server = read_server(connection.context)
    # as kubectl does, a proxy of the environment is not asked for this machine's own addresses
    trust_env = urlsplit(server.url).hostname not in {"127.0.0.1", "localhost", "::1"}
    client = httpx.Client(
        base_url=server.url,
        verify=server.verify,
        auth=server.auth,
        proxy=server.proxy,
        trust_env=trust_env,
        limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
    )
    return Transport(client, name=f"context {connection.context}")


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
