"""A server that speaks S3: moto's, behind a door that verifies every signature by botocore's rules.

Signatures in headers and in signed URLs are verified with their time, and what is sent against the
SHA-256 that was signed: moto itself looks at none of that. Faults are put in at the door, too.
"""

import hashlib
import hmac
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

REGION, BUCKET = "us-east-1", "artifacts"
ACCESS_KEY, SECRET_KEY = "AKIDPADDOCKTESTS", "canary-c81f-of-the-store"
CLOCK_SKEW = timedelta(minutes=15)
STAMP = "%Y%m%dT%H%M%SZ"
SIGNATURE = "X-Amz-Signature"

Environ = dict[str, Any]  # Any: WSGI
StartResponse = Callable[..., Any]  # Any: WSGI
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class RefusedError(Exception):
    """A request that S3 refuses; the code is S3's."""


@dataclass(kw_only=True)
class S3Server:
    """A running server; `requests` are what it has let in: method, path, first of the query.

    `senders` are the addresses from which each was asked last, refused ones too.
    A request that `fault` names a status for is answered by that, after its body was read.
    """

    application: Application
    url: str = ""
    requests: list[str] = field(default_factory=list)
    senders: dict[str, str] = field(default_factory=dict)
    fault: Callable[[str], int | None] = lambda request: None

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which it is reached."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, if it is signed as it must be."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        query = environ["QUERY_STRING"].partition("&")[0]
        path = environ["RAW_URI"].partition("?")[0]
        request = f"{environ['REQUEST_METHOD']} {path} {query}".strip()
        self.senders[request] = environ["REMOTE_ADDR"]
        status = self.fault(request)
        if status is not None:
            return _refuse(start_response, f"{status} Fault", "InternalError")
        try:
            verify(environ, body, now=datetime.now(UTC))
        except RefusedError as error:
            return _refuse(start_response, "403 Forbidden", str(error))
        self.requests.append(request)
        environ["wsgi.input"] = io.BytesIO(body)
        return self.application(environ, start_response)

    def puts(self, part: str = "") -> list[str]:
        """Return the paths of the objects that were written whole and have this in their path."""
        return [one.split()[1] for one in self.requests if one.startswith("PUT ") and part in one]


def verify(environ: Environ, body: bytes, *, now: datetime) -> None:
    """Raise RefusedError for a request that is not signed with the one key there is."""
    query = parse_qs(environ["QUERY_STRING"])
    if SIGNATURE in query:
        given = {name: values[0] for name, values in query.items()}
        valid = timedelta(seconds=int(given["X-Amz-Expires"]))
    else:
        given = _given(environ.get("HTTP_AUTHORIZATION", ""))
        given["X-Amz-Date"] = environ.get("HTTP_X_AMZ_DATE", "")
        valid = CLOCK_SKEW
        if environ.get("HTTP_X_AMZ_CONTENT_SHA256") != hashlib.sha256(body).hexdigest():
            raise RefusedError("XAmzContentSHA256Mismatch")
    signed = datetime.strptime(given["X-Amz-Date"], STAMP).replace(tzinfo=UTC)
    if not signed - CLOCK_SKEW <= now <= signed + valid:
        raise RefusedError("RequestTimeTooSkewed")
    key, _, region, service, _ = given["X-Amz-Credential"].split("/")
    if (key, region, service) != (ACCESS_KEY, REGION, "s3"):
        raise RefusedError("InvalidAccessKeyId")
    wanted = _signature(environ, given, is_query=SIGNATURE in query)
    if not hmac.compare_digest(given[SIGNATURE], wanted):
        raise RefusedError("SignatureDoesNotMatch")


def _given(authorization: str) -> dict[str, str]:
    """Return what the header says of its signature, under the names that a signed URL has."""
    scheme, _, words = authorization.partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        raise RefusedError("AccessDenied")
    pairs = (word.strip().split("=", 1) for word in words.split(","))
    return {f"X-Amz-{name}": value for name, value in pairs}


def _signature(environ: Environ, given: Mapping[str, str], *, is_query: bool) -> str:
    """Return the signature that a request has to have."""
    from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = urlsplit(environ["RAW_URI"])
    pairs = [pair for pair in url.query.split("&") if not pair.startswith(f"{SIGNATURE}=")]
    names = given["X-Amz-SignedHeaders"].split(";")
    request = AWSRequest(
        method=environ["REQUEST_METHOD"],
        url=f"http://{environ['HTTP_HOST']}{url.path}?{'&'.join(pairs)}",
        headers={name: _header(environ, name) for name in names},
    )
    request.context["timestamp"] = given["X-Amz-Date"]
    kind = S3SigV4QueryAuth if is_query else S3SigV4Auth
    auth = kind(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION)
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    return str(auth.signature(to_sign, request))


def _header(environ: Environ, name: str) -> str:
    variable = name.upper().replace("-", "_")
    plain = {"CONTENT_TYPE", "CONTENT_LENGTH"}
    return str(environ[variable if variable in plain else f"HTTP_{variable}"])


def _refuse(start_response: StartResponse, status: str, code: str) -> Iterable[bytes]:
    body = f"<Error><Code>{code}</Code><Message>{status}</Message></Error>".encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]


@contextmanager
def serving_s3(
    address: str = "127.0.0.1", *, buckets: Iterable[str] = (BUCKET,)
) -> Iterator[S3Server]:
    """Run a server on a free port of an address of this machine, with empty buckets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S3_IGNORE_SUBDOMAIN_BUCKETNAME", "true")  # the bucket is in the path
        from moto.moto_server.werkzeug_app import create_backend_app
        from moto.s3.models import s3_backends
        from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, type: str, message: str, *args: object) -> None:
            """Say nothing."""

    state = S3Server(application=create_backend_app("s3"))
    server = make_server(address, 0, state, threaded=True, request_handler=Quiet)
    state.url = f"http://{address}:{server.server_port}"
    backend = s3_backends["123456789012"]["aws"]
    backend.reset()
    for bucket in buckets:
        backend.create_bucket(bucket, REGION)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        backend.reset()
