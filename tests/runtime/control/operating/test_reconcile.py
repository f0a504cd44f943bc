"""`paddock reconcile` without a cluster: what a server does for runs by hand, without its API."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.control.store import runs
from runtime.control.store.store import open_store
from runtime.control.values import StoredRun
from tests.engine.sites import PADDOCK, ROOT, Site, make_site
from tests.runtime.control.operating.served import END_S, RUN_S
from tests.waiting import wait_for

pytestmark = pytest.mark.control


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up, with a user."""
    made = make_site(tmp_path_factory.mktemp("reconciled"))
    made.pulumi("up", "-s", made.cluster)
    made.paddock("user", "add", "ada", "--email", "ada@example.com")
    yield made
    made.assert_nothing_left()


@contextmanager
def reconciling(site: Site, *flags: str, code: int = 0) -> Iterator[Path]:
    """Run the command until the end of the block, then end it by SIGTERM and want an exit code.

    Yields the file with what it writes.
    """
    log = site.folder / f"reconcile{'-'.join(flags)}.log"
    process = subprocess.Popen(
        [PADDOCK, "reconcile", *flags],
        cwd=ROOT,
        env=site.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log.open("w"),
        start_new_session=True,
    )
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == code, log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()


def stored(site: Site, run_id: str) -> StoredRun | None:
    store = open_store(f"sqlite:///{site.home / 'control.db'}")
    try:
        with store.read() as connection:
            return runs.get_run(connection, run_id)
    finally:
        store.close()


def until(site: Site, run_id: str, **wanted: str) -> StoredRun:
    """Wait until a stored run has these fields."""

    def found() -> StoredRun | None:
        run = stored(site, run_id)
        is_it = all(getattr(run, name, "") == value for name, value in wanted.items())
        return run if is_it else None

    run = wait_for(found, timeout_s=RUN_S)
    assert run is not None
    return run


def stacks(site: Site) -> str:
    return site.pulumi("stack", "ls").out


def control_plane_id(site: Site) -> str:
    store = open_store(f"sqlite:///{site.home / 'control.db'}")
    try:
        return store.control_plane_id
    finally:
        store.close()


def test_a_run_by_hand_is_captured_and_torn_down(site: Site) -> None:
    in_the_way = site.home / "artifacts" / "run-hand"
    with reconciling(site):
        local = site.up("run-hand", "told")
        until(site, "run-hand", state="RUNNING")
        in_the_way.write_text("no folder can be made here")
        (local.run_path / "finish").touch()
        until(site, "run-hand", state="COMPLETED", capture="running")
    with reconciling(site, "--once", code=130) as log:  # it has to wait, and hears the signal
        wait_for(lambda: "capture of run-hand" in log.read_text(), timeout_s=RUN_S)
    in_the_way.unlink()

    with reconciling(site):
        run = until(site, "run-hand", state="COMPLETED", teardown="done", capture="done")

    assert run.is_adopted
    assert site.export("run-hand") == []
    assert "run-hand" in stacks(site)
    kept = [path.name for path in (site.home / "artifacts").rglob("*") if path.is_file()]
    assert any("orchestrator" in name for name in kept), kept


def test_one_round_adopts_what_lives_and_removes_what_is_provably_its_own(site: Site) -> None:
    signed = {"controlPlane": control_plane_id(site)}
    site.up("run-lost", **signed)
    site.paddock("stop", "run-lost")
    site.up("run-live", **signed)
    # as a server that has another passphrase than the stacks in its backend
    shut = site.paddock("reconcile", "--once", PULUMI_CONFIG_PASSPHRASE="another")
    left = stacks(site)

    once = site.paddock("reconcile", "--once")

    told = "left behind: stack run-lost of run-lost on local: carries this control plane's id"
    assert told in shut.err
    assert "incorrect passphrase: kept" in shut.err
    assert "run-lost" in left
    assert "1 runs were looked at" in once.err
    assert told in once.err
    assert "does not know its run: removed" in once.err
    assert "run-lost" not in stacks(site)
    live = stored(site, "run-live")
    assert live is not None
    assert (live.is_adopted, live.state) == (True, "RUNNING")
    site.pulumi("destroy", "-s", "run-live")
