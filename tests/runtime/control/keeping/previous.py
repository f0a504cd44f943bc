"""What tests/data/previous_release recorded, put back on this machine."""

import base64
import hashlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from runtime.local_state import write_json
from runtime.processes import identify
from tests.data.previous_release.record import PASSPHRASE
from tests.engine.sites import ROOT, Site, make_site
from tests.runtime.control.operating.served import Served

DATA = ROOT / "tests" / "data" / "previous_release"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A site as the other release left it; `ids` are its runs by what they are there for."""

    site: Site
    ids: dict[str, str]

    @property
    def database(self) -> Path:
        """Return the control plane's database."""
        return self.site.home / "control.db"


def put_back(folder: Path) -> Recorded:
    """Put the recorded site into a folder; none of its processes lives."""
    home = folder / "home"
    home.mkdir(mode=0o700, parents=True)
    (home / "passphrase").write_text(PASSPHRASE)
    (home / "passphrase").chmod(0o600)
    site = make_site(folder)
    document = json.loads((DATA / "files.json").read_text())
    for name, entry in document["files"].items():
        _put_file(folder / name, entry, folder)
    with closing(sqlite3.connect(home / "control.db")) as connection:
        connection.executescript(_here((DATA / "database.sql").read_text(), folder))
    return Recorded(site=site, ids=document["runs"])


def _put_file(path: Path, entry: dict[str, str], folder: Path) -> None:
    if "folder" in entry:
        path.mkdir(exist_ok=True)
        path.chmod(int(entry["folder"], 8))
        return
    if "link" in entry:
        path.symlink_to(entry["link"])
        return
    if "base64" in entry:
        path.write_bytes(base64.b64decode(entry["base64"]))
    else:
        path.write_text(_here(entry["text"], folder))
    path.chmod(int(entry["mode"], 8))


def _here(text: str, folder: Path) -> str:
    places = {
        "@HOME@": str(folder / "home"),
        "@SITE@": str(folder),
        "@CHECKOUT@": str(ROOT),
        "@HOST@": socket.gethostname(),
    }
    for name, value in places.items():
        text = text.replace(name, value)
    return text


def add_to_config(recorded: Recorded, run_id: str, toml: str) -> None:
    """Let the TOML that a queued run was dispatched with end in these lines, too."""
    path = recorded.site.home / "projects" / run_id / "stacks" / f"Pulumi.{run_id}.yaml"
    settings = yaml.safe_load(path.read_text())
    before = settings["config"]["paddock:configText"]
    text = settings["config"]["paddock:configText"] = f"{before}\n{toml}"
    path.write_text(yaml.safe_dump(settings))
    old, new = (hashlib.sha256(one.encode()).hexdigest() for one in (before, text))
    change = (
        "UPDATE runs SET config_text = ?, config_digest = ?, plan_json = replace(plan_json, ?, ?)"
        " WHERE run_id = ?"
    )
    with closing(sqlite3.connect(recorded.database)) as connection, connection:
        connection.execute(change, (text, new, old, new, run_id))
        kept = "UPDATE stack_files SET text = ? WHERE stack = ?"
        connection.execute(kept, (path.read_text(), run_id))


@contextmanager
def supervised(recorded: Recorded, run_id: str) -> Iterator[Path]:
    """Let a run live on: a supervisor that speaks as recorded; yields what it was asked."""
    site = recorded.site
    run = site.local_run(run_id)
    heard = site.folder / "heard"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", DATA / "supervisor.py", run.socket_name, heard],
        cwd=site.state / "sockets",  # a socket's path has 107 bytes
        env={"PADDOCK_HOME": str(site.home), "PADDOCK_RUN_MARK": run.mark},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"listens\n"
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    identity = identify(process.pid)
    assert identity is not None
    _rewrite(site.state / "runs" / f"{run_id}.json", {"supervisor": asdict(identity)})
    path = site.state / "claims.json"
    claims = json.loads(path.read_text())
    for claim in claims:
        if claim["run_id"] == run_id:
            claim["owner"] = asdict(identity)
    write_json(path, claims)
    try:
        yield heard
    finally:
        process.kill()
        reaper.join()
        process.stdout.close()


def _rewrite(path: Path, changes: dict[str, object]) -> None:
    write_json(path, {**json.loads(path.read_text()), **changes})


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Calls of a user of the recorded site, with a key of this release."""

    served: Served
    token: str

    def ask(self, path: str, *, method: str = "GET") -> dict[str, Any]:
        """Return the answer to a request."""
        request = urllib.request.Request(
            f"{self.served.url}/api/v1{path}",
            method=method,
            headers={"Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run."""
        return self.ask(f"/rft/runs/{run_id}")["run"]

    def is_done_with(self, run_id: str) -> bool:
        """Tell whether a run is over, captured and torn down."""
        run = self.run(run_id)
        return run["teardown"] == "done" and run["capture"] == "done"


def caller(served: Served) -> Caller:
    """Return a caller who is the user of the recorded runs."""
    made = served.site.paddock("key", "add", "ada", "-o", "json")
    return Caller(served=served, token=json.loads(made.out)["token"])


def names(folder: Path) -> set[str]:
    """Return what a folder holds."""
    return set(os.listdir(folder))
