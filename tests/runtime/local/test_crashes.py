"""Processes of a run are killed; whatever is killed, the run ends, says why, and leaves nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime import claims
from runtime import supervisor_client as client
from runtime.errors import RunStateError
from runtime.local_state import LocalRun, read_index
from runtime.observe.local import observe, run_processes
from runtime.processes import is_alive
from runtime.states import RunState
from tests.runtime.local.local_runs import ENDLESS, PREPARE, Local, programs
from tests.waiting import wait_for

pytestmark = pytest.mark.crash

NAMES = tuple(programs())
CANARY = "canary-5f1d0c"
SOON_S = 30.0
"""Ten seconds, and what a busy machine adds."""
KEEP_CHILDREN = (
    "import subprocess, sys, time\n"
    "code = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'\n"
    "subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
    "print('up', flush=True); time.sleep(600)"
)


def until_running(local: Local, run: LocalRun) -> None:
    wait_for(lambda: local.record(run).state is RunState.RUNNING)


def supervisor_pid(run: LocalRun) -> int:
    entry = read_index(run.state_path, run.run_id)
    assert entry is not None
    assert entry.supervisor is not None
    return entry.supervisor.pid


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_component_fails_the_run_soon(local: Local, name: str):
    run = local.up(programs(**ENDLESS, inference_0=KEEP_CHILDREN))
    until_running(local, run)
    component = observe(run).component(name)
    assert component is not None
    assert component.process is not None
    started = time.monotonic()

    os.kill(component.process.pid, signal.SIGKILL)

    record = local.until_over(run)
    assert time.monotonic() - started < SOON_S
    assert record.state is RunState.FAILED
    assert record.reason == f"{name} was killed by SIGKILL"
    assert record.exit is not None
    assert record.exit.signal == "SIGKILL"
    wait_for(lambda: not local.leftovers(run))


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_wrapper_fails_the_run_soon(local: Local, name: str):
    run = local.up(programs(**ENDLESS, inference_0=KEEP_CHILDREN))
    until_running(local, run)
    component = observe(run).component(name)
    assert component is not None
    started = time.monotonic()

    os.kill(component.wrapper.pid, signal.SIGKILL)

    record = local.until_over(run)
    assert time.monotonic() - started < SOON_S
    assert record.state is RunState.FAILED
    assert record.reason == f"{name} ended with its wrapper, which was killed by SIGKILL"
    wait_for(lambda: not local.leftovers(run))


def test_a_killed_supervisor_ends_its_components_and_is_said(local: Local):
    run = local.up(programs(**ENDLESS))
    until_running(local, run)

    os.kill(supervisor_pid(run), signal.SIGKILL)

    wait_for(lambda: not run_processes(run))
    assert {one.reason for one in observe(run).components} == {"the supervisor died"}
    record = client.settle_run(run)
    assert record is not None
    assert record.state is RunState.FAILED
    assert record.reason.startswith("the run's supervisor died")
    assert not local.leftovers(run)


def test_a_run_whose_cluster_is_gone_is_told_as_failed(local: Local):
    run = local.up(programs(**ENDLESS))
    until_running(local, run)
    os.kill(supervisor_pid(run), signal.SIGKILL)
    wait_for(lambda: not run_processes(run))
    claims.remove_state(local.state)

    record = client.settle_run(run)

    assert record is not None
    assert record.state is RunState.FAILED
    assert not local.state.exists()


def test_everything_killed_at_once_is_swept(local: Local):
    run = local.up(programs(**ENDLESS, inference_0=KEEP_CHILDREN))
    until_running(local, run)

    os.kill(supervisor_pid(run), signal.SIGKILL)
    for component in observe(run).components:
        if is_alive(component.wrapper):
            os.kill(component.wrapper.pid, signal.SIGKILL)
    client.release_run(run)

    assert local.record(run).state is RunState.STOPPED
    assert not local.leftovers(run)


def test_release_works_with_the_files_of_the_run_gone(local: Local):
    run = local.up(programs(**ENDLESS, inference_0=KEEP_CHILDREN))
    until_running(local, run)
    shutil.rmtree(run.run_path)

    client.release_run(run)

    wait_for(lambda: not local.leftovers(run))
    shutil.rmtree(run.run_path, ignore_errors=True)
    client.release_run(run)
    with pytest.raises(RunStateError, match="was destroyed"):
        client.check_start(local.request(run))
    claims.remove_state(local.state)


def test_a_run_that_completed_before_its_supervisor_died_has_completed(local: Local):
    run = local.up(
        programs(
            inference_0="import time, signal; signal.signal(15, signal.SIG_IGN)\ntime.sleep(600)"
        )
    )
    wait_for(lambda: (one := observe(run).component("trainer-0")) and one.end)
    os.kill(supervisor_pid(run), signal.SIGKILL)

    client.release_run(run)

    assert local.record(run).state is RunState.COMPLETED
    assert not local.leftovers(run)


def test_a_killed_start_can_be_repeated_or_released(local: Local):
    run = local.run()
    request = local.request(run, programs(**ENDLESS))
    code = (
        "from pathlib import Path; from runtime.supervisor_client import *\n"
        f"run = LocalRun(state_path=Path({str(run.state_path)!r}),"
        f" run_path=Path({str(run.run_path)!r}), run_id={run.run_id!r}, attempt=1)\n"
        f"start_run(StartRun(run=run, config_digest='d1', num_slots=2, num_ports=4,"
        f" prepare={PREPARE!r}))"
    )
    for delay in (0.3, 0.5, 0.7, 0.9, 1.1):
        starter = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(delay)  # the moment of the kill, not a wait for something
        starter.kill()
        starter.wait()

    handle = client.start_run(request)
    client.start_component(run, "trainer-0", {})

    assert handle.supervisor_pid == supervisor_pid(run)
    client.release_run(run)
    assert not local.leftovers(run)


def test_a_component_that_ignores_sigterm_is_killed(local: Local):
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    run = local.up(programs(**(ENDLESS | {"trainer_0": stubborn})))
    until_running(local, run)

    record = client.stop_run(run, reason="asked for")

    assert record.state is RunState.STOPPED
    assert not local.leftovers(run)


def test_the_starters_pipes_close_at_once(local: Local):
    run = local.run()
    local.request(run, programs(**ENDLESS))
    code = (
        "from pathlib import Path; from runtime.supervisor_client import *\n"
        f"run = LocalRun(state_path=Path({str(run.state_path)!r}),"
        f" run_path=Path({str(run.run_path)!r}), run_id={run.run_id!r}, attempt=1)\n"
        f"start_run(StartRun(run=run, config_digest='d1', num_slots=2, num_ports=4,"
        f" prepare={PREPARE!r})); start_component(run, 'trainer-0', {{}})"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert os.getpgid(supervisor_pid(run)) != os.getpgid(0)
    assert os.getsid(supervisor_pid(run)) != os.getsid(0)


def test_a_hangup_of_the_terminal_does_not_reach_the_run(local: Local):
    run = local.up(programs(**ENDLESS))
    until_running(local, run)

    os.kill(supervisor_pid(run), signal.SIGHUP)
    described = client.start_run(local.request(run, programs(**ENDLESS)))

    assert described.supervisor_pid == supervisor_pid(run)
    assert local.record(run).state is RunState.RUNNING
    client.release_run(run)


def test_a_secret_reaches_the_components_and_no_file_argv_or_log(local: Local):
    count = "import os, time; print(len(os.environ['API_KEY']), flush=True); time.sleep(600)"
    codes = dict.fromkeys(NAMES, count)
    before = os.environ.get("PULUMI_CONFIG_PASSPHRASE")
    os.environ["PULUMI_CONFIG_PASSPHRASE"] = f"{CANARY}-ambient"

    try:
        run = local.up(codes, secret_env={"API_KEY": CANARY})
    finally:
        os.environ.pop("PULUMI_CONFIG_PASSPHRASE")
        if before is not None:
            os.environ["PULUMI_CONFIG_PASSPHRASE"] = before
    logs = [run.directory.logs(1) / f"{name}.log" for name in NAMES]
    wait_for(lambda: all(log.exists() and log.read_text() for log in logs))

    assert {log.read_text() for log in logs} == {f"{len(CANARY)}\n"}
    found = [path for path in local.state.parent.rglob("*") if path.is_file() and holds(path)]
    assert found == []
    own = {process.pid for process in run_processes(run)}
    assert [pid for pid in own if holds(Path(f"/proc/{pid}/cmdline"))] == []
    with_secret = {pid for pid in own if holds(Path(f"/proc/{pid}/environ"))}
    assert with_secret == {one.process.pid for one in observe(run).components if one.process}
    assert list(local.state.glob("private/*/*")) == []


def holds(path: Path) -> bool:
    try:
        return CANARY.encode() in path.read_bytes()
    except OSError:
        return False


def test_rounds_of_kills_at_random_moments_leave_nothing(local: Local):
    rounds = int(os.environ.get("PADDOCK_CRASH_ROUNDS", "5"))
    for number in range(rounds):
        run = local.up(programs(inference_0=KEEP_CHILDREN, **ENDLESS), run_id=f"run-{number:03}")
        processes = sorted(run_processes(run))
        victim = processes[(number * 7) % len(processes)]
        time.sleep((number % 5) * 0.15)  # the moment of the kill, not a wait for something
        if is_alive(victim):
            os.kill(victim.pid, signal.SIGKILL)

        client.release_run(run)

        assert local.record(run).is_over
        assert not local.leftovers(run)
        assert client.capacity(local.run("run-other")).num_free == 4
