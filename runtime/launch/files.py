"""The file server of a cluster: run directories over HTTP, read-only, from the run volumes.

One file, standard library only, Python 3.10 or newer: a pod of the `files` Deployment mounts it
from a ConfigMap. It reads one run's directory at a time, and follows no link out of it, whoever
wrote the link. Reached through the API server's pod proxy by `runtime.observe`.

    GET /files/<run>/<path>   the file; Range: bytes=a-b, a-, -n
    GET /list/<run>/<path>    [{"name", "size", "mtime", "is_dir"}] of a folder, as JSON
    GET /tail/<run>/<path>    the last lines (?lines=50); X-Paddock-Offset says where they begin
    GET /find/<run>/<path>    {"spans": [[begin, end]], "from"}: where lines hold one of the texts,
                              from ?end= back to &start=, and how far it came; &folds: in any case
    GET /healthz              ok, without a token

The token comes in the header X-Paddock-Token. X-Paddock-Size is a file's size when it was opened.
X-Paddock-Texts has texts in hex, with commas; no access log has them, who looks for a leaked key.
"""

import argparse
import ctypes
import errno
import hmac
import json
import os
import re
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

MOUNTED_RUN = "/paddock/run/"
"""Where pods mount a run's directory: absolute links below it are the run's own."""

_RUN_ID = re.compile(r"[a-z][a-z0-9-]{2,52}")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_CHUNK = 256 * 1024
_MAX_LINKS = 16
_MAX_ENTRIES = 100_000
_MAX_TAIL_BYTES = 4 * 1024 * 1024
_MAX_LINES = 10_000
_FIND_BLOCK = 4 * 1024 * 1024
_FIND_S = 2.0
_MIN_SPAN = 64 * 1024
_MAX_SPANS = 256
_MAX_TEXTS = 16
_MAX_READERS = 64
_IDLE_S = 60.0
_DENIED = (errno.EACCES, errno.EPERM)


class RefusedPath(Exception):
    """The path leaves the run's directory."""


class Volumes:
    """The mounted volumes; each holds run directories in its folder `runs`."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Serve the runs of these volumes; the first that has a run is its volume."""
        self._roots = tuple(roots)

    def open(self, run_id: str, path: str) -> int:
        """Return a descriptor of a run's file or folder; raises OSError or RefusedPath."""
        if not _RUN_ID.fullmatch(run_id):
            raise FileNotFoundError(errno.ENOENT, "no run id", run_id)
        for root in self._roots:
            try:
                run = os.open(root / "runs" / run_id, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                return open_inside(run, path)
            finally:
                os.close(run)
        raise FileNotFoundError(errno.ENOENT, "no such run on the volumes", run_id)


def open_inside(root: int, path: str) -> int:
    """Return a descriptor of a path below a folder's descriptor, links resolved step by step.

    No step leaves the folder, also when a link is swapped in between. Raises RefusedPath for a path
    that would.
    """
    pending = path.split("/")[::-1]
    walked = [os.dup(root)]
    num_links = 0
    try:
        while pending:
            name = pending.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                if len(walked) == 1:
                    raise RefusedPath(path)
                os.close(walked.pop())
                continue
            target = _link_target(name, walked[-1])
            if target is None:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                walked.append(os.open(name, flags, dir_fd=walked[-1]))
                continue
            num_links += 1
            if num_links > _MAX_LINKS:
                raise RefusedPath(path)
            if target.startswith("/"):
                if not target.startswith(MOUNTED_RUN):
                    raise RefusedPath(path)
                target = target.removeprefix(MOUNTED_RUN)
                while len(walked) > 1:
                    os.close(walked.pop())
            pending += target.split("/")[::-1]
        return os.dup(walked[-1])
    finally:
        for descriptor in walked:
            os.close(descriptor)


def _link_target(name: str, folder: int) -> str | None:
    """Return where a link points to, None for anything that is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def list_folder(descriptor: int) -> list[dict[str, object]]:
    """Return the entries of a folder, by name; a link is described by itself."""
    found = []
    with os.scandir(descriptor) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # removed in between
                continue
            found.append(
                {
                    "name": os.fsencode(entry.name).decode("utf-8", "replace"),
                    "size": status.st_size,
                    "mtime": status.st_mtime,
                    "is_dir": stat.S_ISDIR(status.st_mode),
                }
            )
    return sorted(found, key=lambda one: str(one["name"]))


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return (first, end) of a Range header, the whole without one; None: not satisfiable."""
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or match.groups() == ("", ""):
        return 0, size  # a header of another form is ignored, as RFC 9110 14.2 has it
    first, last = match.groups()
    if not first:
        count = int(last)
        return (max(0, size - count), size) if count else None
    start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None


def tail_offset(descriptor: int, size: int, num_lines: int) -> int:
    """Return where the last lines of a file begin, at most some megabytes before its end."""
    offset, num_breaks, oldest = size, 0, max(0, size - _MAX_TAIL_BYTES)
    while offset > oldest:
        start = max(oldest, offset - _CHUNK)
        block = os.pread(descriptor, offset - start, start)
        if offset == size and block.endswith(b"\n"):
            block = block[:-1]  # the end of the last line begins no further one
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            num_breaks += 1
            if num_breaks == num_lines:
                return start + place + 1
        offset = start
    return oldest


def read_span(descriptor: int, first: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces; ends early when the file was cut."""
    while first < end:
        block = os.pread(descriptor, min(_CHUNK, end - first), first)
        if not block:
            return
        first += len(block)
        yield block


def find_spans(
    descriptor: int, span: tuple[int, int], texts: Sequence[bytes], folds: bool
) -> tuple[list[tuple[int, int]], int]:
    """Return spans of whole lines, the last one first, and the offset that was reached.

    Every line behind that offset that holds one of the texts is in a span; others may be, too.
    `folds`: the texts are in lower case, and found in any. It stops after some spans or seconds,
    and at a line that is as long as what is read at once.
    """
    start, reached = span
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + _FIND_S
    while reached > start and len(found) < _MAX_SPANS and time.monotonic() < deadline:
        first = max(start, reached - _FIND_BLOCK)
        block = os.pread(descriptor, reached - first, first)
        # a line that began before is the next block's; what was cut off meanwhile is nobody's
        begin = block.find(b"\n") + 1 if first > start else 0
        if len(block) < reached - first or (first > start and not 0 < begin < len(block)):
            break
        lines = block[begin:]
        for one in reversed(list(_line_spans(lines.lower() if folds else lines, texts))):
            found.append((first + begin + one[0], first + begin + one[1]))
        reached = first + begin
    return found, reached


def _load_memmem() -> Callable[..., int | None] | None:
    """Return the C library's memmem: several times as fast as `find`, and others run meanwhile."""
    try:
        memmem = ctypes.CDLL(None).memmem
    except (OSError, AttributeError):
        return None
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return memmem


_MEMMEM = _load_memmem()


def _find(block: bytes, text: bytes, start: int = 0) -> int:
    if _MEMMEM is None:
        return block.find(text, start)
    address = ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p).value or 0
    place = _MEMMEM(address + start, len(block) - start, text, len(text))
    return -1 if place is None else place - address


def _line_spans(block: bytes, texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where whole lines lie, some in a row, that begin with one that holds a text."""
    places = [_find(block, text) for text in texts]
    while hits := [place for place in places if place >= 0]:
        begin = block.rfind(b"\n", 0, min(hits)) + 1
        end = block.find(b"\n", max(min(hits), begin + _MIN_SPAN)) + 1 or len(block)
        yield begin, end
        for number, place in enumerate(places):
            if 0 <= place < end:
                places[number] = _find(block, texts[number], end)


class FilesServer(ThreadingHTTPServer):
    """The server: a thread for each of at most 64 readers; more wait in the backlog."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], volumes: Volumes, token_file: Path) -> None:
        """Listen on an address."""
        self.volumes = volumes
        self.token_file = token_file
        self._readers = threading.BoundedSemaphore(_MAX_READERS)
        super().__init__(address, _Handler)

    def process_request(self, request: object, client_address: object) -> None:
        """Wait for a free reader before the next connection gets a thread."""
        self._readers.acquire()
        super().process_request(request, client_address)  # type: ignore[arg-type] # socketserver's own types

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve one connection in its thread."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type] # as above
        finally:
            self._readers.release()


class _Handler(BaseHTTPRequestHandler):
    server: FilesServer  # type: ignore[assignment] # socketserver hands it its own server
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    _has_begun = False

    def do_GET(self) -> None:
        try:
            self._answer()
        except RefusedPath:
            self._say(HTTPStatus.FORBIDDEN, "the path leaves the run's directory")
        except OSError as error:
            if self._has_begun or isinstance(error, ConnectionError | TimeoutError):
                self.close_connection = True  # the length that was promised tells the reader
            elif error.errno in _DENIED:
                self._say(HTTPStatus.FORBIDDEN, "the volume does not let this file be read")
            else:
                self._say(HTTPStatus.NOT_FOUND, f"no such file: {error.strerror}")

    do_HEAD = do_GET

    def _answer(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/healthz":
            return self._say(HTTPStatus.OK, "ok")
        if not self._is_known():
            return self._say(HTTPStatus.UNAUTHORIZED, "X-Paddock-Token is missing or wrong")
        _, verb, run_id, path = [*url.path.split("/", 3), "", "", ""][:4]
        answers = {
            "files": self._send_file,
            "list": self._send_list,
            "tail": self._send_tail,
            "find": self._send_found,
        }
        if verb not in answers:
            return self._say(HTTPStatus.NOT_FOUND, f"there is /{', /'.join(answers)}")
        name = os.fsdecode(unquote(path, errors="surrogateescape"))
        if "\0" in name:
            raise RefusedPath(name)
        descriptor = self.server.volumes.open(run_id, name)
        try:
            query = parse_qs(url.query, keep_blank_values=True)
            answers[verb](descriptor, query)
        finally:
            os.close(descriptor)

    def _is_known(self) -> bool:
        given = self.headers.get("X-Paddock-Token", "")
        token = self.server.token_file.read_bytes().strip()
        return bool(token) and hmac.compare_digest(given.encode("latin-1", "replace"), token)

    def _send_file(self, descriptor: int, _query: dict[str, list[str]]) -> None:
        size = _file_size(descriptor)
        span = parse_range(self.headers.get("Range"), size)
        if span is None:
            headers = {"Content-Range": f"bytes */{size}"}
            return self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "past the end", headers)
        return self._send_span(descriptor, span, size, "Range" in self.headers)

    def _send_tail(self, descriptor: int, query: dict[str, list[str]]) -> None:
        size = _file_size(descriptor)
        asked = query.get("lines", ["50"])[-1]
        num_lines = min(int(asked), _MAX_LINES) if asked.isdecimal() and int(asked) else 50
        self._send_span(descriptor, (tail_offset(descriptor, size, num_lines), size), size, False)

    def _send_found(self, descriptor: int, query: dict[str, list[str]]) -> None:
        size = _file_size(descriptor)
        try:
            given = self.headers.get("X-Paddock-Texts", "")
            texts = [bytes.fromhex(one) for one in given.split(",")]
        except ValueError:
            texts = []
        if not 0 < len(texts) <= _MAX_TEXTS or not all(texts):
            return self._say(HTTPStatus.BAD_REQUEST, f"X-Paddock-Texts: 1 to {_MAX_TEXTS}, in hex")
        bounds = [query.get(name, [""])[-1] for name in ("start", "end")]
        if not all(one.isdecimal() and len(one) < 20 for one in bounds):
            return self._say(HTTPStatus.BAD_REQUEST, "start, end: offsets of lines")
        start, end = map(int, bounds)
        spans, reached = find_spans(descriptor, (start, min(end, size)), texts, "folds" in query)
        headers = {"Content-Type": "application/json"}
        return self._say(HTTPStatus.OK, json.dumps({"spans": spans, "from": reached}), headers)

    def _send_list(self, descriptor: int, _query: dict[str, list[str]]) -> None:
        entries = list_folder(descriptor)
        headers = {"Content-Type": "application/json"}
        if len(entries) >= _MAX_ENTRIES:
            headers["X-Paddock-Truncated"] = "true"
        self._say(HTTPStatus.OK, json.dumps(entries), headers)

    def _send_span(
        self, descriptor: int, span: tuple[int, int], size: int, is_partial: bool
    ) -> None:
        first, end = span
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - first),
            "Accept-Ranges": "bytes",
            "X-Paddock-Size": str(size),
            "X-Paddock-Offset": str(first),
        }
        if is_partial:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        self._begin(HTTPStatus.PARTIAL_CONTENT if is_partial else HTTPStatus.OK, headers)
        if self.command != "HEAD":
            for block in read_span(descriptor, first, end):
                self.wfile.write(block)

    def _say(self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> None:
        body = f"{text}\n".encode()
        head = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
        self._begin(status, {**head, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        # one request a connection: an idle one of a proxy would hold a reader
        self.close_connection = self._has_begun = True
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        if self.path != "/healthz":
            sys.stderr.write(f"{self.address_string()} {format % args}\n")


def _file_size(descriptor: int) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, "not a regular file")
    return status.st_size


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, action="append", required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - a pod's own address
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(argv)
    server = FilesServer((given.host, given.port), Volumes(given.root), given.token_file)
    # not from the handler itself: `shutdown` waits for the loop that the signal interrupts
    signal.signal(
        signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start()
    )
    sys.stderr.write(f"serving runs on port {server.server_address[1]}\n")
    with server:
        server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    main()
