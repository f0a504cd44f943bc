"""Two servers as on two hosts: one Postgres, stacks and captures in one S3, a passphrase in both.

Each has its own PADDOCK_HOME; nothing that one of them keeps there reaches the other.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest

from runtime.control.bucket_store import BucketStore
from runtime.control.operations import OperationKind
from runtime.control.projects import RunFolder
from runtime.control.store import stack_files
from runtime.control.store.store import Store, open_store
from runtime.processes import ProcessId, session_processes
from runtime.states import RunState, is_terminal
from tests.engine.sites import PADDOCK, ROOT, Site, make_site
from tests.runtime.control.operating.served import (
    Served,
    dispatch,
    read_run,
    serving,
)
from tests.runtime.control.postgres import made_database
from tests.runtime.control.prime.client import Prime, prime_program
from tests.runtime.control.reading.s3 import BUCKET, S3Server, serving_s3
from tests.secret_search import files_with_value, has_value, tables_with_value
from tests.waiting import wait_for

pytestmark = pytest.mark.control

STATES = "states"
CANARY, PASSPHRASE = "canary-91ab57", "canary-passphrase-30d1"
REFUSED_S, RUN_S = 300, 300
LOOK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Two hosts, whose servers share database, state backend and artifact store."""

    first: Site
    second: Site
    s3: S3Server
    store: Store

    def has_settings(self, run_id: str) -> bool:
        """Tell whether a run is made, and the database has its settings for the other host."""
        with self.store.read() as connection:
            return stack_files.get_file(connection, run_id) is not None

    def is_gone(self, run_id: str) -> bool:
        """Tell whether a run's stack is no more."""
        return run_id not in self.first.pulumi("stack", "ls").out


@pytest.fixture
def hosts(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Yield two hosts with a cluster of two slots, on which one run fits."""
    database = made_database(postgres_url, f"two_hosts_{uuid4().hex}")
    with serving_s3(buckets=(BUCKET, STATES)) as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        shared = {
            **s3.environment,
            "PULUMI_BACKEND_URL": f"s3://{STATES}?endpoint={s3.url}&s3ForcePathStyle=true",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PADDOCK_ARTIFACTS": f"s3://{BUCKET}",
            "PADDOCK_DATABASE": f"{postgres_url}/{database}",
        }
        first = make_site(tmp_path / "first", slots=2, extra=shared)
        home = {"PADDOCK_HOME": str(tmp_path / "second" / "home")}
        project = replace(first.project, environment={**first.environment, **home})
        second = Site(folder=tmp_path / "second", project=project)
        first.pulumi("up", "-s", first.cluster)
        store = open_store(shared["PADDOCK_DATABASE"])
        yield Hosts(first=first, second=second, s3=s3, store=store)
        store.close()
        first.kill_everything()
        second.kill_everything()


def test_a_run_of_one_server_is_promoted_ended_and_read_by_the_other(hosts: Hosts) -> None:
    with serving(hosts.second) as other:
        with serving(hosts.first) as served:
            first = served.client("ada", program=prime_program())
            second = replace(first, url=other.url)
            third = start_bound_server(hosts)
            toml = hosts.first.write_toml("long", "long")
            live = dispatch(first, toml, "-e", f"WANDB_API_KEY={CANARY}")
            until(second, live, "RUNNING")
            waiting = dispatch(first, toml, "-e", f"WANDB_API_KEY={CANARY}")
            wait_for(lambda: hosts.has_settings(waiting), timeout_s=RUN_S)
            assert read_run(second, waiting)["status"] == "QUEUED"
            the_bound_server_is_refused(third)
        # the second has nothing of the runs but what is shared
        assert second("train", "stop", live, "--force").code == 0
        until(second, live, "STOPPED")
        until(second, waiting, "RUNNING")
        assert second("train", "stop", waiting, "--force").code == 0
        until(second, waiting, "STOPPED")
        for run_id in (live, waiting):
            wait_for(lambda run_id=run_id: is_torn_down(second, run_id), timeout_s=RUN_S)
            wait_for(lambda run_id=run_id: hosts.is_gone(run_id), timeout_s=RUN_S)
            logs = second("train", "logs", run_id, "--raw")
            assert logs.code == 0, logs.out + logs.err
            assert hosts.s3.puts(f"/{BUCKET}/{run_id}/text/logs/attempt_1/")
        nobody_knows(hosts, served, other)
        assert "public.runs" in tables_with_value(hosts.store.engine, live), "rows are read"
    hosts.first.assert_nothing_left()
    hosts.second.assert_nothing_left()


def test_an_engine_killed_in_an_up_and_its_server_are_taken_over_from(hosts: Hosts) -> None:
    with serving(hosts.first) as served:
        first = served.client("ada", program=prime_program())
        run_id = dispatch(first, hosts.first.write_toml("slow", "slow"))
        worker = worker_in_up(hosts, run_id)
        served.process.kill()
        served.process.wait()
    for process in session_processes(worker):
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not session_processes(worker))
    assert locks_of(run_id), "the engine was done before it was killed"

    with serving(hosts.second) as other:
        second = replace(first, url=other.url)
        until(second, run_id, "RUNNING")
        assert second("train", "stop", run_id, "--force").code == 0
        until(second, run_id, "STOPPED")
        wait_for(lambda: is_torn_down(second, run_id), timeout_s=RUN_S)
        wait_for(lambda: hosts.is_gone(run_id), timeout_s=RUN_S)

    assert locks_of(run_id) == []
    hosts.first.assert_nothing_left()
    hosts.second.assert_nothing_left()


def worker_in_up(hosts: Hosts, run_id: str) -> ProcessId:
    """Wait until an engine of the first host holds the stack in an `up`; return its worker."""
    folder = RunFolder(path=hosts.first.home / "projects" / run_id, run_id=run_id)

    def in_up() -> ProcessId | None:
        found = folder.read()
        is_up = found is not None and found.report.kind is OperationKind.UP
        return found.worker if found is not None and is_up and locks_of(run_id) else None

    worker = wait_for(in_up, timeout_s=RUN_S)
    assert worker is not None
    return worker


def locks_of(run_id: str) -> list[str]:
    """Return the keys of the locks on a run's stack."""
    return list(BucketStore(f"s3://{STATES}").keys(f".pulumi/locks/organization/paddock/{run_id}/"))


def start_bound_server(hosts: Hosts) -> "subprocess.Popen[str]":
    """Start a server of the same database whose stacks are in a folder of its host."""
    home = {"PADDOCK_HOME": str(hosts.first.folder / "third")}
    environment = {**hosts.first.environment, **home}
    del environment["PULUMI_BACKEND_URL"]
    return subprocess.Popen(
        [PADDOCK, "serve", "--port", "0"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def the_bound_server_is_refused(process: "subprocess.Popen[str]") -> None:
    """See that a server ends by itself and says why."""
    try:
        _, said = process.communicate(timeout=REFUSED_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 3, said
    assert "is a folder of this host" in said
    assert "PULUMI_BACKEND_URL" in said


def until(prime: Prime, run_id: str, state: str) -> None:
    """Wait until a run is in a state; an end that is another one is an error."""

    def is_there() -> bool:
        time.sleep(LOOK_S)
        run = read_run(prime, run_id)
        seen = run["status"]
        assert seen == state or not is_terminal(RunState(seen)), f"{seen}: {run.get('reason')}"
        return seen == state

    wait_for(is_there, timeout_s=RUN_S)


def is_torn_down(prime: Prime, run_id: str) -> bool:
    """Tell whether a run is captured and torn down."""
    run = read_run(prime, run_id)
    return (run["teardown"], run["capture"]) == ("done", "done")


def nobody_knows(hosts: Hosts, *servers: Served) -> None:
    """Look for the values in database, buckets and homes, and in what the servers said."""
    said = "".join(line for served in servers for line in served.lines)
    for value in (CANARY, PASSPHRASE):
        assert not has_value(said.encode(), value)
        assert files_with_value(hosts.first.folder.parent, value) == []
        assert tables_with_value(hosts.store.engine, value) == []
        for bucket in (STATES, BUCKET):
            store = BucketStore(f"s3://{bucket}")
            keys = store.keys("")
            assert keys
            assert [key for key in keys if has_value(store.read(key, 0, 1 << 30), value)] == []
    assert json.loads(servers[-1].get("/readyz"))["status"] == "ready"
