"""SIGTERM of a server in the middle of a destroy: what becomes of it, and of the run afterwards."""

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.control.failures import INTERRUPTED
from runtime.control.operations import OperationKind, OperationState
from runtime.control.projects import PerformedReport, RunFolder
from runtime.local_state import run_lock
from runtime.processes import session_processes
from tests.engine.recorder import make_recorder
from tests.engine.sites import Site, make_site
from tests.runtime.control.operating.served import (
    END_S,
    RUN_S,
    Served,
    dispatch,
    serving,
    state_of,
)
from tests.runtime.control.prime.client import Prime, prime_program
from tests.waiting import wait_for

pytestmark = pytest.mark.control

HEARD = """
import signal, subprocess, sys

def hear(number, frame):
    with open(sys.argv[1], "a") as file:
        file.write(f"{number}\\n")
    engine.send_signal(number)

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, hear)
engine = subprocess.Popen(sys.argv[2:])
sys.exit(engine.wait())
"""
"""Stands before the engine of a destroy, and notes every signal that it passes on."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster is up, and whose destroys note their signals in `signals`."""
    folder = tmp_path_factory.mktemp("ended")
    programs = make_recorder(folder / "bin")
    plain = (programs / "pulumi").rename(programs / "recorded")
    (programs / "heard.py").write_text(HEARD)
    words = sys.executable, "-I", "-S", programs / "heard.py", folder / "signals", plain
    heard = shlex.join(map(str, words))
    script = f'case "$1" in destroy) exec {heard} "$@";; *) exec {plain} "$@";; esac'
    (programs / "pulumi").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "pulumi").chmod(0o755)
    made = make_site(folder / "site", extra={"PATH": f"{programs}:/usr/bin:/bin"})
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


def signals(site: Site) -> list[int]:
    """Return the signals that engines of destroys got."""
    path = site.folder.parent / "signals"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def project_of(site: Site, run_id: str) -> RunFolder:
    return RunFolder(path=site.home / "projects" / run_id, run_id=run_id)


def engine_locks(site: Site, run_id: str) -> list[Path]:
    return list((site.backend / ".pulumi/locks/organization/paddock" / run_id).glob("*.json"))


@contextmanager
def held_destroy(site: Site, prime: Prime, run_id: str) -> Iterator[PerformedReport]:
    """Let a run end and its destroy begin, which gets no further before the end of the block."""
    run = site.local_run(run_id)
    wait_for(lambda: state_of(prime, run_id) == "RUNNING", timeout_s=RUN_S)
    with run_lock(run):
        (run.run_path / "finish").touch()

        def in_destroy() -> PerformedReport | None:
            found = project_of(site, run_id).read()
            is_it = found is not None and found.report.kind is OperationKind.DESTROY
            return found if is_it and engine_locks(site, run_id) else None

        destroying = wait_for(in_destroy, timeout_s=RUN_S)
        assert destroying is not None
        yield destroying


def end(served: Served) -> None:
    """Wait for the end of a server that got its signal."""
    assert served.process.wait(END_S) == 0, "".join(served.lines[-30:])


def until_torn_down(site: Site, prime: Prime, run_id: str) -> None:
    """Let the next server bring the teardown to its end, with nothing left of the run."""
    with serving(site) as served:
        again = Prime(program=prime.program, url=served.url, token=prime.token, home=prime.home)
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
        wait_for(lambda: not project_of(site, run_id).path.exists(), timeout_s=RUN_S)
        assert state_of(again, run_id) == "COMPLETED"
    site.assert_nothing_left()


def test_a_server_whose_end_ends_all_interrupts_its_engine_once(site: Site) -> None:
    with serving(site, "--drain", "1", "--end-operations") as served:
        prime = served.client("ada", program=prime_program())
        run_id = dispatch(prime, site.write_toml("told", "told"))
        with held_destroy(site, prime, run_id) as destroying:
            served.process.send_signal(signal.SIGTERM)
            wait_for(lambda: signals(site))
            assert served.process.poll() is None
        end(served)

    found = project_of(site, run_id).read()
    exported = json.loads(site.pulumi("stack", "export", "-s", run_id).out)["deployment"]
    assert signals(site) == [signal.SIGINT]
    assert destroying.worker is not None
    assert session_processes(destroying.worker) == frozenset()
    assert engine_locks(site, run_id) == []
    assert not exported.get("pending_operations")
    assert found is not None
    assert (found.report.code, found.report.is_retryable) == (INTERRUPTED, True)
    until_torn_down(site, prime, run_id)


def test_a_server_that_ends_alone_leaves_its_engine_to_the_next(site: Site) -> None:
    before = signals(site)
    with serving(site, "--drain", "0") as served:
        prime = served.client("bob", program=prime_program())
        run_id = dispatch(prime, site.write_toml("told", "told"))
        with held_destroy(site, prime, run_id) as destroying:
            served.process.send_signal(signal.SIGTERM)
            end(served)
            assert destroying.worker is not None
            assert session_processes(destroying.worker)

    until_torn_down(site, prime, run_id)
    found = destroying.report
    assert (found.kind, found.state) == (OperationKind.DESTROY, OperationState.RUNNING)
    assert signals(site) == before
