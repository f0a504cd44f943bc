"""kill -9 of a server, its worker and its engine in the middle of an `up`: the next one goes on."""

import os
import signal
from collections.abc import Iterator

import pytest

from runtime.control.operations import OperationKind
from runtime.control.projects import RunFolder
from runtime.processes import ProcessId, session_processes
from tests.engine.sites import Site, make_site
from tests.runtime.control.operating.served import (
    RUN_S,
    Served,
    dispatch,
    serving,
    state_of,
)
from tests.runtime.control.prime.client import Prime, prime_program
from tests.waiting import wait_for

pytestmark = pytest.mark.control


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up."""
    made = make_site(tmp_path_factory.mktemp("killed"))
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


def worker_in_up(site: Site, run_id: str) -> ProcessId:
    """Wait until the engine holds the stack in an `up`, and return the worker."""
    folder = RunFolder(path=site.home / "projects" / run_id, run_id=run_id)
    locks = site.backend / ".pulumi/locks/organization/paddock" / run_id

    def in_up() -> ProcessId | None:
        found = folder.read()
        is_up = found is not None and found.report.kind is OperationKind.UP
        return found.worker if found is not None and is_up and list(locks.glob("*.json")) else None

    worker = wait_for(in_up, timeout_s=RUN_S)
    assert worker is not None
    return worker


def kill(served: Served) -> None:
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait()


def until_removed(site: Site, prime: Prime, run_id: str) -> None:
    wait_for(lambda: state_of(prime, run_id) == "RUNNING", timeout_s=RUN_S)
    assert prime("train", "stop", run_id, "--force").code == 0
    wait_for(lambda: state_of(prime, run_id) == "STOPPED", timeout_s=RUN_S)
    wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
    wait_for(lambda: not (site.home / "projects" / run_id).exists(), timeout_s=RUN_S)


@pytest.mark.parametrize("is_worker_killed", [False, True])
def test_the_next_server_goes_on(site: Site, *, is_worker_killed: bool) -> None:
    user = f"user-{is_worker_killed}".lower()
    toml = site.write_toml("slow", "slow")
    with serving(site) as served:
        first = served.client(user, program=prime_program())
        run_id = dispatch(first, toml, "-e", "WANDB_API_KEY=known")
        worker = worker_in_up(site, run_id)
        kill(served)
    if is_worker_killed:
        for process in session_processes(worker):
            os.kill(process.pid, signal.SIGKILL)
    with serving(site) as served:
        again = Prime(program=first.program, url=served.url, token=first.token, home=first.home)
        until_removed(site, again, run_id)

    site.assert_nothing_left()


def killed_in_make(site: Site, user: str, *flags: str) -> tuple[Prime, str, bool]:
    """Dispatch a run, kill server and worker; return client, run, whether the MAKE was cut off."""
    folder = site.home / "projects"
    with serving(site) as served:
        first = served.client(user, program=prime_program())
        run_id = dispatch(first, site.write_toml("lost", "long"), *flags)

        def worker() -> ProcessId | None:
            found = RunFolder(path=folder / run_id, run_id=run_id).read()
            return found.worker if found is not None else None

        making = wait_for(worker, timeout_s=RUN_S)
        assert making is not None
        kill(served)
        for process in session_processes(making):
            os.kill(process.pid, signal.SIGKILL)
    found = RunFolder(path=folder / run_id, run_id=run_id).read()
    assert found is not None
    is_cut_off = found.report.kind is OperationKind.MAKE and found.report.finished_at is None
    return first, run_id, is_cut_off


def test_a_run_whose_secrets_died_with_the_server_is_failed(site: Site) -> None:
    folder = site.home / "projects"
    before = set(folder.glob("*"))
    first, run_id, is_cut_off = killed_in_make(site, "lost", "-e", "WANDB_API_KEY=known")
    with serving(site) as served:
        again = Prime(program=first.program, url=served.url, token=first.token, home=first.home)
        if is_cut_off:
            wait_for(lambda: state_of(again, run_id) == "FAILED", timeout_s=RUN_S)
            wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
            wait_for(lambda: not (folder / run_id).exists(), timeout_s=RUN_S)
        else:  # it was faster than the kill
            until_removed(site, again, run_id)

    assert set(folder.iterdir()) <= before | {folder / ".server", folder / ".stacks"}
    site.assert_nothing_left()


def test_a_stack_without_secrets_is_made_by_the_next_server(site: Site) -> None:
    first, run_id, _ = killed_in_make(site, "kept")
    with serving(site) as served:
        again = Prime(program=first.program, url=served.url, token=first.token, home=first.home)
        until_removed(site, again, run_id)

    site.assert_nothing_left()
