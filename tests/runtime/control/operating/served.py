"""A real `paddock serve` on a site, and the real `prime` client of a user on it."""

import json
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engine.sites import PADDOCK, ROOT, Site
from tests.runtime.control.prime.client import Prime
from tests.waiting import wait_for

START_S = 90
END_S = 90
RUN_S = 180
_SAID = '"message": "paddock serves '


@dataclass(kw_only=True)
class Served:
    """A server's process; `lines` are what it wrote so far."""

    site: Site
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return its address, once it has said it."""

        def said() -> str | None:
            assert self.process.poll() is None, "".join(self.lines)
            return next((one for one in list(self.lines) if _SAID in one), None)

        line = wait_for(said, timeout_s=START_S)
        assert line is not None
        return json.loads(line)["message"].split()[2]

    def client(self, name: str, *, program: Path) -> Prime:
        """Make a user with a key by the admin commands, and return the user's client."""
        token = add_user(self.site, name)
        home = self.site.folder / "homes" / name
        home.mkdir(parents=True)
        return Prime(program=program, url=self.url, token=token, home=home)

    def get(self, path: str) -> str:
        """Return the answer of a route that needs no key."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return answer.read().decode()

    def read(self) -> None:
        """Collect what the server writes."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)


def add_user(site: Site, name: str) -> str:
    """Make a user with a key by the admin commands, and return the key."""
    site.paddock("user", "add", name, "--email", f"{name}@example.com")
    made = site.paddock("key", "add", name, "-o", "json")
    return json.loads(made.out)["token"]


@contextmanager
def serving(site: Site, *flags: str) -> Iterator[Served]:
    """Run a server until the end of the block, then end it by SIGTERM and want exit code 0."""
    process = subprocess.Popen(
        [PADDOCK, "serve", "--port", "0", *flags],
        cwd=ROOT,
        env=site.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    served = Served(site=site, process=process)
    reader = threading.Thread(target=served.read, daemon=True)
    reader.start()
    try:
        yield served
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0, "".join(served.lines[-30:])
    finally:
        process.kill()
        process.wait()
        reader.join(10)


def state_of(prime: Prime, run_id: str) -> str:
    """Return a run's state as the client sees it."""
    said = prime("train", "get", run_id, "-o", "json")
    assert said.code == 0, said.out + said.err
    return json.loads(said.out)["run"]["status"]


def read_run(prime: Prime, run_id: str) -> dict[str, Any]:
    """Return a run as the API gives it: a start of the client takes a second of a core."""
    headers = {"Authorization": f"Bearer {prime.token}"}
    address = f"{prime.url}/api/v1/rft/runs/{run_id}"
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as it:
        return json.loads(it.read())["run"]


def dispatch(prime: Prime, toml: Path, *flags: str) -> str:
    """Dispatch a run and return its id."""
    said = prime("train", str(toml), "-y", "-o", "json", *flags)
    assert said.code == 0, said.out + said.err
    return json.loads(said.out)["run"]["runId"]
