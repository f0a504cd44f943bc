"""The wrapper as a pod's first process: its verdict for kubelet, a volume that is away, SIGTERM."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.launch import wrapper
from tests.waiting import killed_after, wait_for

TIMEOUT_S = 60


def command(
    run: Path, code: str, *, component: str = "trainer-0", python: str = sys.executable
) -> list[str]:
    return [
        *(sys.executable, "-I", "-S", wrapper.__file__, "--run-dir", str(run)),
        *("--attempt", "1", "--component", component, "--log", f"{component}.log"),
        *("--termination-log", str(run.parent / "termination"), "--", python, "-I", "-c", code),
    ]


def verdict(run: Path) -> dict[str, object]:
    return json.loads((run.parent / "termination").read_text())


def finish_orchestrator(run: Path) -> None:
    folder = run / "status/attempt_1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "orchestrator.json").write_text('{"end": 1.0, "outcome": "completed"}')


def test_the_verdict_is_left_for_kubelet(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = "print('Orchestrator finished.')"

    done = subprocess.run(command(run, code, component="orchestrator"), timeout=TIMEOUT_S)

    assert done.returncode == 0
    assert verdict(run) == {
        "component": "orchestrator",
        "outcome": "completed",
        "reason": "exited with code 0",
        "exit_code": 0,
        "signal": None,
        "end_mark": True,
        "oom_kills": 0,
    }


def test_a_verdict_is_never_longer_than_kubelet_keeps(tmp_path: Path) -> None:
    status: dict[str, object] = {"component": "x", "reason": '"\n' * 9000}

    wrapper.write_termination_log(str(tmp_path / "log"), status)

    text = (tmp_path / "log").read_text()
    assert len(text) <= wrapper.MAX_TERMINATION_BYTES
    assert json.loads(text)["reason"].endswith(" ...")


def test_a_volume_that_is_away_costs_lines_and_not_the_component(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text("no folder: every open below it fails")

    done = subprocess.run(command(run, "print('alive')"), capture_output=True, timeout=TIMEOUT_S)

    assert (done.returncode, done.stdout) == (0, b"alive\n")
    assert verdict(run)["outcome"] == "completed"


def test_a_volume_that_comes_back_gets_the_rest_of_the_log(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text("no folder yet")
    code = "import time\nfor n in range(600): print(n, flush=True); time.sleep(.1)"
    process = subprocess.Popen(command(run, code), stdout=subprocess.DEVNULL)
    log = run / "logs/attempt_1/trainer-0.log"
    try:
        run.unlink()
        wait_for(lambda: log.exists() and len(log.read_bytes().split()) > 2)
        wait_for(lambda: (run / "status/attempt_1/trainer-0.json").exists())
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def test_a_component_that_takes_no_notice_is_killed_and_the_verdict_stays(tmp_path: Path) -> None:
    run, hasty = tmp_path / "run", tmp_path / "wrapper.py"
    text = Path(wrapper.__file__).read_text()
    assert "\nGRACE_S = 10.0" in text
    hasty.write_text(text.replace("\nGRACE_S = 10.0", "\nGRACE_S = 0.5"))
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(600)"
    )
    argv = [
        str(hasty) if word == wrapper.__file__ else word
        for word in command(run, code, component="env-train-math")
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    with killed_after(process):
        assert process.stdout.readline() == b"up\n"

    finish_orchestrator(run)

    assert process.wait(TIMEOUT_S) == 0
    process.stdout.close()
    assert (verdict(run)["outcome"], verdict(run)["reason"], verdict(run)["signal"]) == (
        "ended",
        "the orchestrator finished",
        "SIGKILL",
    )


def test_a_request_to_end_after_the_orchestrator_is_no_failure(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = "import time; print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen(
        command(run, code, component="inference-0"), stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    with killed_after(process):
        assert process.stdout.readline() == b"up\n"

    finish_orchestrator(run)
    process.terminate()

    assert process.wait(TIMEOUT_S) == 0
    process.stdout.close()
    assert (verdict(run)["outcome"], verdict(run)["reason"]) == (
        "ended",
        "the orchestrator finished",
    )


def test_a_request_to_end_is_said_in_the_verdict(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = "import time; print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen(command(run, code), stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    with killed_after(process):
        assert process.stdout.readline() == b"up\n"

    process.terminate()

    assert process.wait(TIMEOUT_S) == 143
    process.stdout.close()
    assert verdict(run)["outcome"] == "ended"
    assert verdict(run)["reason"] == "it was asked to by SIGTERM"


def test_the_mark_of_a_ready_directory_goes_with_the_orchestrator(tmp_path: Path) -> None:
    run = tmp_path / "run"
    mark = run / "status/attempt_1" / wrapper.READY
    mark.parent.mkdir(parents=True)
    mark.touch()

    subprocess.run(command(run, "pass"), timeout=TIMEOUT_S)
    assert mark.exists()
    subprocess.run(command(run, "pass", component="orchestrator"), timeout=TIMEOUT_S)

    assert not mark.exists()


@pytest.mark.parametrize(
    ("cgroup", "first"),
    [
        ("0::/\n", "/sys/fs/cgroup/memory.events"),
        ("0::/pods/a\n", "/sys/fs/cgroup/pods/a/memory.events"),
    ],
)
def test_kills_for_memory_are_counted_in_the_own_group(cgroup: str, first: str) -> None:
    assert wrapper.oom_counters(cgroup)[0] == first


def test_kills_for_memory_are_counted_under_version_1_too() -> None:
    found = wrapper.oom_counters("5:cpu,cpuacct:/a\n4:memory:/kubepods/b\n0::/\n")

    assert found[1:3] == [
        "/sys/fs/cgroup/memory/kubepods/b/memory.oom_control",
        "/sys/fs/cgroup/memory/memory.oom_control",
    ]


def test_a_child_that_the_kernel_killed_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "memory.oom_control"
    counter.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    monkeypatch.setattr(wrapper, "oom_counters", lambda text: ["/nowhere", str(counter)])

    assert wrapper.oom_kills() == 3


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(probe, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="no namespace of processes can be made here")
def test_as_process_1_it_ends_whatever_else_is_in_the_container(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = (
        "import subprocess, os\n"
        "subprocess.Popen(['setsid', 'sleep', '600'], env={}, start_new_session=True)\n"
        "assert os.getppid() == 1"
    )
    argv = ["unshare", "--pid", "--fork", "--mount-proc", *command(run, code)]

    done = subprocess.run(argv, timeout=TIMEOUT_S, env=dict(os.environ))

    assert done.returncode == 0
    assert verdict(run)["outcome"] == "completed"


@pytest.mark.skipif(not can_unshare(), reason="no namespace of processes can be made here")
def test_as_process_1_it_obeys_sigterm(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = "import time; print('up', flush=True); time.sleep(600)"
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*namespace, *command(run, code)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    with killed_after(process):
        assert process.stdout.readline() == b"up\n"
    status = json.loads((run / "status/attempt_1/trainer-0.json").read_text())

    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), 15)

    process.wait(TIMEOUT_S)
    process.stdout.close()
    assert status["wrapper_pid"] == 1
    assert verdict(run)["reason"] == "it was asked to by SIGTERM"
