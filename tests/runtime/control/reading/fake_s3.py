"""A bucket over HTTP as S3 speaks it: whole and multipart writes, ranges, lists; no signatures."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

_RANGE = re.compile(r"bytes=(\d+)-(\d+)?")


@dataclass(kw_only=True, slots=True)
class FakeS3:
    """The objects by key, without the bucket, and the uploads under way."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    fail_next: int = 0


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """Run a server."""
    state = FakeS3()

    class Handler(_Handler):
        s3 = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    s3: FakeS3
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        key, query = self._asked()
        body = self._body()
        if self._fails():
            return
        tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        if "uploadId" in query:
            self.s3.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self.s3.objects[key] = body
        self._say(200, headers={"ETag": tag})

    def do_POST(self) -> None:
        key, query = self._asked()
        body = self._body()
        if "delete" in query:
            names = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for name in names:
                self.s3.objects.pop(unescape(name), None)
            gone = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self._xml(f"<DeleteResult>{gone}</DeleteResult>")
            return
        if "uploads" in query:
            name = f"upload-{len(self.s3.uploads)}"
            self.s3.uploads[name] = {}
            self._xml(
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
            return
        parts = self.s3.uploads.pop(query["uploadId"][0])
        self.s3.objects[key] = b"".join(parts[number] for number in sorted(parts))
        self._xml(
            '<CompleteMultipartUploadResult><ETag>"a-1"</ETag></CompleteMultipartUploadResult>'
        )

    def do_GET(self) -> None:
        key, query = self._asked()
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
            return
        if key not in self.s3.objects:
            self._say(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        data = self.s3.objects[key]
        tag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        headers = {"ETag": tag, "Last-Modified": "Tue, 01 Dec 2026 00:00:00 GMT"}
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            self._say(200, data, headers)
            return
        first = int(match[1])
        last = min(int(match[2] or len(data) - 1), len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self._say(206, data[first : last + 1], headers)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        key, _ = self._asked()
        self.s3.objects.pop(key, None)
        self._say(204)

    def _list(self, prefix: str) -> None:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-12-01T00:00:00.000Z</LastModified></Contents>"
            for key, data in sorted(self.s3.objects.items())
            if key.startswith(prefix)
        )
        self._xml(f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>")

    def _fails(self) -> bool:
        if not self.s3.fail_next:
            return False
        self.s3.fail_next -= 1
        self._say(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
        return True

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        url = urlsplit(self.path)
        _, _, key = unquote(url.path).lstrip("/").partition("/")
        return key, parse_qs(url.query, keep_blank_values=True)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _xml(self, text: str) -> None:
        self._say(200, text.encode(), {"Content-Type": "application/xml"})

    def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
