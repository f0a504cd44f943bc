"""A line to an API server that a test can cut and mend, so that an outage is one run's alone."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class CutLine:
    """Forwards TCP connections of a port of this machine; cut, it ends and refuses them."""

    def __init__(self, host: str, port: int) -> None:
        """Listen; nothing is forwarded until `mend`."""
        self._target = (host, port)
        self._port = 0
        self._listener: socket.socket | None = None
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_refusing = False
        self.num_refused = 0
        self.mend()

    @property
    def port(self) -> int:
        """Return the port to connect to."""
        return self._port

    def mend(self) -> None:
        """Take connections again, on the same port."""
        self._is_refusing = False
        if self._listener is not None:
            return
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """End every connection and take no more."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        self._end_all()

    def refuse(self) -> None:
        """End every connection, and each new one at once; `num_refused` counts the new ones."""
        self._is_refusing = True
        self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            _close(end)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if self._is_refusing:
                self.num_refused += 1
                _close(near)
                continue
            try:
                far = socket.create_connection(self._target, timeout=10)
            except OSError:
                _close(near)
                continue
            far.settimeout(None)
            with self._lock:
                self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


@contextlib.contextmanager
def cut_line(kubeconfig: Path, folder: Path) -> Iterator[tuple[CutLine, Path]]:
    """Yield a line to a kubeconfig's server, and a kubeconfig that goes through it.

    The server's certificate must be one for 127.0.0.1, as the testbed's is.
    """
    document = yaml.safe_load(kubeconfig.read_text())
    url = urlsplit(document["clusters"][0]["cluster"]["server"])
    line = CutLine(str(url.hostname), url.port or 443)
    for entry in document["clusters"]:
        entry["cluster"]["server"] = f"https://127.0.0.1:{line.port}"
    path = folder / "kubeconfig-of-a-line"
    path.write_text(json.dumps(document))
    try:
        yield line, path
    finally:
        line.cut()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _close(source)
    _close(sink)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
