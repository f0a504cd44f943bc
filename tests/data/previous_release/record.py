"""Records what a release leaves on a machine: `record.py FOLDER TAG`, run by its own Python.

    git worktree add ../previous TAG && make -C ../previous setup
    cd ../previous && .venv/bin/python .../tests/data/previous_release/record.py FOLDER TAG

A real server of that release has one run that is over and captured, two that are live, and one
that is queued; then all its processes are killed. FOLDER gets `database.sql` and `files.json`, in
which @HOME@, @SITE@, @CHECKOUT@ and @HOST@ stand for what is of this machine. No secret is among
it: the passphrase is the one below, and the API key is not kept.
"""

import base64
import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import sys
import tempfile
import urllib.request
from pathlib import Path

from pydantic import JsonValue

from runtime.processes import send_signal
from tests.engine.sites import ROOT, Site, make_site
from tests.runtime.control.operating.served import Served, serving
from tests.waiting import wait_for

PASSPHRASE = "of a recorded site"
RUN_S = 600
LEFT_OUT = (
    *("engine", "backups", "history", "passphrase"),
    *("Pulumi.yaml", "pulumi-home", "cache", "model"),
)
UNREAD = (".bak", ".log")
"""Of files in a home: copies of states, and what an engine or a supervisor printed."""

PLACES = ("stackTrace", "sourcePosition")
RUNS = {"finished": "quick", "live": "long", "orphaned": "long", "queued": "quick"}


class Recorder:
    """A server of the release on a site, and a user who has a key."""

    def __init__(self, site: Site, served: Served) -> None:
        """Make the user."""
        site.paddock("user", "add", "ada", "--email", "ada@example.com")
        self._token = json.loads(site.paddock("key", "add", "ada", "-o", "json").out)["token"]
        self._site, self._served = site, served

    def ask(self, path: str, body: object = None) -> dict[str, str]:
        """Return the answer to a request."""
        request = urllib.request.Request(
            f"{self._served.url}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read())

    def dispatch(self, behaviour: str) -> str:
        """Dispatch a run and return its id."""
        text = self._site.write_toml("recorded", behaviour).read_text()
        return self.ask("/training/runs", {"configText": text})["runId"]

    def until(self, run_id: str, **wanted: str) -> None:
        """Wait until fields of a run have these values."""

        def is_so() -> bool:
            run: dict[str, str] = self.ask(f"/rft/runs/{run_id}")["run"]  # type: ignore[assignment]  # an object
            return all(run[name] == value for name, value in wanted.items())

        wait_for(is_so, timeout_s=RUN_S)


def play(site: Site) -> dict[str, str]:
    """Bring the four runs to where they are to be, and return their ids."""
    with serving(site) as served:
        recorder = Recorder(site, served)
        ids = {"finished": recorder.dispatch(RUNS["finished"])}
        recorder.until(ids["finished"], status="COMPLETED", teardown="done", capture="done")
        for name in ("live", "orphaned"):
            ids[name] = recorder.dispatch(RUNS[name])
            recorder.until(ids[name], status="RUNNING")
        ids["queued"] = recorder.dispatch(RUNS["queued"])
        recorder.until(ids["queued"], status="QUEUED")
        projects = site.home / "projects"
        wait_for(lambda: _is_kept(projects / ids["queued"]), timeout_s=RUN_S)
    return ids


def _is_kept(project: Path) -> bool:
    """Tell whether the operation that made a stack is done, and its settings stored."""
    found = project / "operation.json"
    return (project / "kept").exists() and '"done"' in found.read_text().lower()


def kill(site: Site, ids: dict[str, str]) -> None:
    """Kill all processes, supervisors first, so that none writes how the others ended."""
    for name in ("live", "orphaned"):
        os.kill(site.supervisor(site.local_run(ids[name])), signal.SIGKILL)
    for process in site.processes():
        send_signal(process, signal.SIGKILL)


def database_text(path: Path) -> str:
    """Return a database as SQL."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump()) + "\n"
    finally:
        connection.close()


def files_of(site: Site) -> dict[str, dict[str, str]]:
    """Return what lies in a site, by path."""
    found: dict[str, dict[str, str]] = {}
    for folder, names, files in os.walk(site.folder):
        names[:] = [name for name in sorted(names) if name not in LEFT_OUT]
        for name in (*names, *sorted(files)):
            path = Path(folder, name)
            relative = str(path.relative_to(site.folder))
            is_unread = relative.startswith("home/") and path.suffix in UNREAD
            if name in LEFT_OUT or is_unread or path.is_socket() or "control.db" in name:
                continue
            if path.is_symlink():
                found[relative] = {"link": os.readlink(path)}
            elif path.is_dir():
                found[relative] = {"folder": oct(stat.S_IMODE(path.stat().st_mode))}
            else:
                found[relative] = _file(site, path, is_raw="artifacts" in relative)
    return found


def _file(site: Site, path: Path, *, is_raw: bool) -> dict[str, str]:
    mode, data = oct(stat.S_IMODE(path.stat().st_mode)), path.read_bytes()
    if is_raw:  # what was captured has its checksum, and stays as it is
        return {"mode": mode, "base64": base64.b64encode(data).decode()}
    text = data.decode()
    if path.suffix == ".json":  # of a state: where its program was, which nothing reads
        text = json.dumps(_without_places(json.loads(text)))
    return {"mode": mode, "text": templated(text, site)}


def _without_places(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_without_places(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_places(one) for key, one in value.items() if key not in PLACES}
    return value


def templated(text: str, site: Site) -> str:
    """Return a text without what is of this machine."""
    places = {
        str(site.home): "@HOME@",
        str(site.folder): "@SITE@",
        str(ROOT): "@CHECKOUT@",
        socket.gethostname(): "@HOST@",
    }
    for value, name in places.items():
        text = text.replace(value, name)
    return text


def main(folder: Path, tag: str) -> None:
    """Record a release into a folder."""
    work = Path(tempfile.gettempdir()) / "previous-release"  # it stands in what is captured
    shutil.rmtree(work, ignore_errors=True)
    home = work / "home"
    home.mkdir(mode=0o700, parents=True)
    (home / "passphrase").write_text(PASSPHRASE)
    site = make_site(work, slots=4)
    site.pulumi("up", "-s", site.cluster)
    try:
        ids = play(site)
        kill(site, ids)
        folder.mkdir(parents=True, exist_ok=True)
        sql = templated(database_text(home / "control.db"), site)
        (folder / "database.sql").write_text(sql)
        document = {"release": tag, "runs": ids, "files": files_of(site)}
        (folder / "files.json").write_text(json.dumps(document, indent=1) + "\n")
    finally:
        site.kill_everything()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
