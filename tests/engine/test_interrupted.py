"""kill -9 of the engine in the middle of `up`: whatever had begun is found and ended."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.control.stacks import list_stacks
from runtime.observe.local import run_processes
from runtime.processes import identify
from tests.engine.sites import Site, make_site
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

Condition = Callable[[Site, str], object]


def locks(site: Site, run_id: str) -> list[dict]:
    folder = site.backend / ".pulumi/locks/organization/paddock" / run_id
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def engine_has_the_lock(site: Site, run_id: str) -> object:
    return locks(site, run_id)


def supervisor_is_there(site: Site, run_id: str) -> object:
    return (site.state / "runs" / f"{run_id}.json").exists()


def components_are_being_made(site: Site, run_id: str) -> object:
    return (site.local_run(run_id).directory.configs / "preparing").exists()


def start_until(site: Site, run_id: str, condition: Condition) -> "subprocess.Popen[str]":
    """Start an `up` whose components are slow to come, and wait for a moment of it."""
    site.new_run(run_id, "slow")
    engine = site.start("pulumi", "up", "-s", run_id, "--yes", "--skip-preview")
    wait_for(lambda: condition(site, run_id))
    assert engine.poll() is None, "the update was over before the kill"
    return engine


def kill(engine: "subprocess.Popen[str]") -> None:
    os.kill(engine.pid, signal.SIGKILL)
    engine.communicate(timeout=60)


@pytest.mark.parametrize(
    "moment", [engine_has_the_lock, supervisor_is_there, components_are_being_made]
)
def test_destroy_recovers_from_an_engine_killed_in_mid_up(site: Site, moment: Condition) -> None:
    run_id = "cut-" + moment.__name__.replace("_", "-")
    kill(start_until(site, run_id, moment))

    result = site.paddock("destroy", run_id)

    assert "cancelling its update" in result.err
    assert site.export(run_id) == []
    assert locks(site, run_id) == []


def test_destroy_is_refused_while_a_living_engine_holds_the_stack(site: Site) -> None:
    engine = start_until(site, "locked", components_are_being_made)

    result = site.paddock("destroy", "locked", expect=1)

    assert f"locked is locked by pid {engine.pid} on " in result.err
    assert "Traceback" not in result.text
    out, err = engine.communicate(timeout=60)
    assert engine.returncode == 0, out + err
    site.paddock("destroy", "locked")


@pytest.mark.parametrize("moment", [supervisor_is_there, components_are_being_made])
def test_cancel_and_destroy_by_hand_remove_the_processes_of_interrupted_creates(
    site: Site, moment: Condition
) -> None:
    run_id = "hand-" + moment.__name__.replace("_", "-")
    kill(start_until(site, run_id, moment))

    site.pulumi("cancel", run_id, "--yes")
    result = site.pulumi("destroy", "-s", run_id)

    assert "Traceback" not in result.text
    assert site.export(run_id) == []
    wait_for(lambda: not site.leftovers(), timeout_s=10)


def test_ctrl_c_in_mid_up_leaves_no_lock_and_nothing_that_destroy_misses(site: Site) -> None:
    engine = start_until(site, "ctrl-c", components_are_being_made)

    os.killpg(engine.pid, signal.SIGINT)  # as a terminal does: to the whole process group
    out, err = engine.communicate(timeout=60)

    assert engine.returncode != 0, out + err
    assert locks(site, "ctrl-c") == []
    site.pulumi("destroy", "-s", "ctrl-c")
    assert site.export("ctrl-c") == []


def test_language_host_and_providers_end_with_their_engine(site: Site) -> None:
    engine = start_until(site, "hosted", supervisor_is_there)
    run = site.local_run("hosted")
    kill(engine)

    wait_for(lambda: site.processes() <= run_processes(run), timeout_s=20)

    assert identify(site.supervisor(run)) is not None
    site.paddock("destroy", "hosted")


def test_a_torn_sidecar_of_a_plain_file_backend_stops_no_command(tmp_path: Path) -> None:
    backend = tmp_path / "theirs"
    backend.mkdir()
    extra = {"PULUMI_BACKEND_URL": backend.as_uri(), "PULUMI_CONFIG_PASSPHRASE": "known"}
    site = make_site(tmp_path / "site", extra=extra)
    sidecar = backend / ".pulumi/stacks/paddock" / f"{site.cluster}.json.attrs"
    sidecar.write_bytes(b"")  # as a kill -9 of the engine leaves it, now and then
    assert "EOF" in site.pulumi("stack", "ls", expect=None).text

    assert list_stacks(site.project) == [site.cluster]

    assert site.cluster in site.pulumi("stack", "ls").out
