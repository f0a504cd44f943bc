"""A real `paddock serve` on a site that is killed and started again, and a user's calls of it."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from runtime.control.store.store import Store, open_store
from tests.engine.sites import PADDOCK, ROOT, Site, make_site
from tests.waiting import wait_for

PREPARE = f"{Path(__file__).with_name('prepare_sleepers.py')}:prepare"
START_S = 120.0
END_S = 120.0
CALL_S = 240.0
"""How long a call is repeated while the server is away, or wants to be asked later."""

_AWAY = frozenset({429, 502, 503, 504})
_SAID = b"paddock serves "


@dataclass(kw_only=True)
class Plane:
    """The server as it is now; everything here is safe to call from several threads."""

    site: Site
    num_workers: int
    kills: list[float] = field(default_factory=list)
    token: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def log(self) -> Path:
        """Return the file that all its servers write to."""
        return self.site.folder / "server.log"

    def start(self) -> None:
        """Start a server and wait until it serves."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = process = subprocess.Popen(
                [PADDOCK, "serve", "--port", "0", "--workers", str(self.num_workers)],
                cwd=ROOT,
                env=self.site.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def said() -> str:
            assert process.poll() is None, f"the server ended: see {self.log}"
            _, mark, rest = self.log.read_bytes()[offset:].partition(_SAID)
            return rest.partition(b"\n")[0].split()[0].decode() if mark and b"\n" in rest else ""

        self._url = wait_for(said, timeout_s=START_S)

    def kill(self) -> int:
        """Kill the server, start the next one, and return the pid that is gone."""
        with self._lock:
            assert self._process is not None
            pid = self._process.pid
            os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self.kills.append(time.monotonic())
            self.start()
            return pid

    def stop(self) -> None:
        """End the server as a service manager does, and want exit code 0."""
        with self._lock:
            assert self._process is not None
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(END_S) == 0, f"the server ended badly: see {self.log}"

    def abandon(self) -> None:
        """Kill the server, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def add_user(self, name: str) -> None:
        """Make the user whose calls these are."""
        self.site.paddock("user", "add", name, "--email", f"{name}@example.com")
        self.token = json.loads(self.site.paddock("key", "add", name, "-o", "json").out)["token"]

    def open_store(self) -> Store:
        """Open the server's own database, for reading."""
        return open_store(f"sqlite:///{self.site.home / 'control.db'}")

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str | int] | None = None,
        key: str | None = None,
    ) -> dict[str, object]:
        """Send a request, again while the server is away, and return the answer's JSON."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        deadline = time.monotonic() + CALL_S
        while True:
            url = f"{self._url}/api/v1{path}"
            try:
                answer = httpx.request(
                    method, url, headers=headers, json=body, params=query, timeout=60.0
                )
                if answer.status_code not in _AWAY:
                    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
                    return answer.json()
                trouble = answer.text
            except httpx.TransportError as error:
                trouble = repr(error)
            assert time.monotonic() < deadline, f"{method} {path}: {trouble}"
            time.sleep(0.5)  # between two tries, until the deadline


def make_plane(folder: Path, *, num_slots: int, num_workers: int) -> Plane:
    """Make a site with its cluster up, and a server that is not started on it."""
    site = make_site(folder, slots=num_slots, extra={"PADDOCK_PREPARE": PREPARE})
    site.pulumi("up", "-s", site.cluster)
    return Plane(site=site, num_workers=num_workers)
