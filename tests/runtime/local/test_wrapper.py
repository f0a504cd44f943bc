"""The wrapper starts, tees, watches and ends one component; real processes, no supervisor."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import limits, naming
from runtime.launch import wrapper
from runtime.processes import ProcessId, is_alive, marked_processes
from tests.waiting import wait_for

MARK = f"test/run-one/{os.getpid()}"


class Wrapped:
    """A run directory and the wrappers that a test starts in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, code: str, *options: str, component: str = "trainer-0"
    ) -> subprocess.Popen[bytes]:
        argv = [
            *(sys.executable, "-I", "-S", wrapper.__file__, "--run-dir", str(self.path)),
            *("--attempt", "1", "--component", component, "--log", f"{component}.log"),
            *("--mark", MARK, *options, "--", sys.executable, "-I", "-c", code),
        ]
        environment = os.environ | {"PADDOCK_RUN_MARK": MARK, "PADDOCK_COMPONENT": component}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
        self.started.append(process)
        return process

    def status(self, component: str = "trainer-0") -> dict[str, object]:
        path = self.path / "status/attempt_1" / f"{component}.json"
        return json.loads(path.read_bytes()) if path.exists() else {}

    def peer(self, component: str, **status: object) -> None:
        folder = self.path / "status/attempt_1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{component}.json").write_text(json.dumps({"end": None, **status}))

    def log(self, component: str = "trainer-0") -> bytes:
        path = self.path / "logs/attempt_1" / f"{component}.log"
        return path.read_bytes() if path.exists() else b""


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[Wrapped]:
    made = Wrapped(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    for left in marked():
        os.kill(left.pid, signal.SIGKILL)


def marked() -> frozenset[ProcessId]:
    name, mark = naming.ENV_RUN_MARK.encode(), MARK.encode()
    return marked_processes(lambda environment: environment.get(name) == mark)


def test_its_numbers_and_names_are_those_of_the_platform():
    assert wrapper.HEARTBEAT_S == limits.HEARTBEAT_INTERVAL_S
    assert wrapper.STALE_S == limits.HEARTBEAT_STALE_S
    assert wrapper.GRACE_S == limits.STOP_GRACE_S
    assert wrapper.TRAINER_GRACE_S == limits.TRAINER_GRACE_S
    assert wrapper.END_MARK.decode() == limits.END_MARK
    assert (wrapper.ORCHESTRATOR, wrapper.TRAINER) == (naming.ORCHESTRATOR, naming.TRAINER)
    assert wrapper.ENV_RUN_MARK == naming.ENV_RUN_MARK
    assert wrapper.ENV_COMPONENT == naming.ENV_COMPONENT


def test_output_is_teed_byte_for_byte(wrapped: Wrapped):
    data = b"a\0b\r10%\r20%\xff\xe2\x82\n" + b"x" * 1_000_000 + b"\nend without newline"
    code = f"import os,sys; d={data[:20]!r}; sys.stdout.buffer.write(d); sys.stdout.flush()\n"
    code += f"os.write(2, {data[20:40]!r})\nn={len(data)}\nd={data[40:60]!r}+b'x'*(n-80)\n"
    code += f"sys.stdout.buffer.write(d+{data[-20:]!r})"
    expected = data[:60] + b"x" * (len(data) - 80) + data[-20:]

    shown, _ = wrapped.start(code).communicate(timeout=60)

    assert wrapped.log() == expected
    assert shown == expected


def test_the_index_tells_when_a_line_began(wrapped: Wrapped):
    before = time.time()

    wrapped.start("import time; print('a', flush=True); time.sleep(3); print('b')").communicate()

    index = (wrapped.path / "logs/attempt_1/trainer-0.log.idx").read_text().splitlines()
    rows = [(float(time_), int(offset)) for time_, offset in (row.split() for row in index)]
    assert [offset for _, offset in rows] == [0, 2]
    assert before - 1 < rows[0][0] < rows[1][0] - 1


def test_an_exit_code_is_recorded(wrapped: Wrapped):
    assert wrapped.start("raise SystemExit(3)").wait(60) == 3

    status = wrapped.status()
    assert (status["outcome"], status["exit_code"]) == ("failed", 3)
    assert status["reason"] == "exited with code 3"


def test_a_signal_is_recorded_by_name(wrapped: Wrapped):
    process = wrapped.start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert process.wait(60) == 137
    assert (wrapped.status()["signal"], wrapped.status()["exit_code"]) == ("SIGKILL", None)


def test_a_program_that_is_not_there_is_a_failure_with_its_reason_in_the_log(tmp_path: Path):
    argv = [sys.executable, wrapper.__file__, "--run-dir", str(tmp_path), "--attempt", "1"]
    argv += ["--component", "trainer-0", "--log", "t.log", "--", "/no/such/program"]

    assert subprocess.run(argv, capture_output=True, timeout=20).returncode == 127
    assert b"cannot execute /no/such/program" in (tmp_path / "logs/attempt_1/t.log").read_bytes()


def test_descendants_are_ended_with_the_component(wrapped: Wrapped):
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        "subprocess.Popen(['bash', '-c', 'sleep 600 & disown'], env={}).wait()\n"
    )

    assert wrapped.start(code).wait(60) == 0
    assert marked() == frozenset()
    assert wrapped.status()["outcome"] == "completed"


def test_a_server_that_exits_while_the_run_lives_has_failed(wrapped: Wrapped):
    assert wrapped.start("pass", component="inference-0").wait(60) == 1

    assert wrapped.status("inference-0")["outcome"] == "failed"


def test_a_server_that_exits_after_the_orchestrator_has_not_failed(wrapped: Wrapped):
    wrapped.peer("orchestrator", outcome="completed", end=1.0)

    assert wrapped.start("raise SystemExit(1)", component="inference-0").wait(60) == 0

    assert wrapped.status("inference-0")["outcome"] == "ended"


def test_the_end_mark_is_seen_across_writes(wrapped: Wrapped):
    code = (
        "import os, time\nos.write(1, b'Orchestrator fin'); time.sleep(.2); os.write(1, b'ished.')"
    )

    wrapped.start(code, component="orchestrator").wait(60)

    assert wrapped.status("orchestrator")["end_mark"] is True


def test_a_server_ends_well_after_the_orchestrator(wrapped: Wrapped):
    process = wrapped.start("import time; time.sleep(600)", component="env-train-math")
    wait_for(lambda: wrapped.status("env-train-math").get("pid"))

    wrapped.peer("orchestrator", outcome="completed", end=1.0)

    assert process.wait(60) == 0
    assert wrapped.status("env-train-math")["reason"] == "the orchestrator finished"


def test_a_trainer_has_time_after_the_orchestrator(wrapped: Wrapped):
    wrapped.peer("orchestrator", outcome="completed", end=1.0)

    in_time = wrapped.start("import time; time.sleep(.7)", "--trainer-grace-s", "20")

    assert in_time.wait(60) == 0
    assert wrapped.status()["outcome"] == "completed"


def test_a_trainer_that_takes_too_long_is_ended(wrapped: Wrapped):
    wrapped.peer("orchestrator", outcome="completed", end=1.0)

    wrapped.start("import time; time.sleep(600)", "--trainer-grace-s", "0.5").wait(60)

    assert wrapped.status()["outcome"] == "ended"


def test_a_failure_of_a_peer_ends_the_component(wrapped: Wrapped):
    wrapped.peer("inference-0", outcome="failed", reason="exited with code 3", end=1.0)

    assert wrapped.start("import time; time.sleep(600)").wait(60) == 0

    status = wrapped.status()
    assert status["outcome"] == "ended"
    assert status["reason"] == "inference-0 failed: exited with code 3"


def test_a_peer_without_a_heartbeat_ends_the_component(tmp_path: Path):
    peers = wrapper.Peers(tmp_path, "trainer-0")
    (tmp_path / "inference-0.json").write_text('{"end": null, "heartbeat": 1}')
    peers.look()
    assert peers.reason_to_end(60.0) == ""

    peers._changed_at["inference-0"] -= wrapper.STALE_S + 1
    peers.look()

    assert peers.reason_to_end(60.0) == "inference-0 gave no heartbeat for 60 s"


def test_sigterm_is_forwarded_and_recorded(wrapped: Wrapped):
    code = (
        "import signal, sys, time\n"
        "def end(*_): print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    )
    process = wrapped.start(code)
    wait_for(lambda: b"up" in wrapped.log())

    process.terminate()

    assert process.wait(60) == 143
    assert b"saved" in wrapped.log()
    assert wrapped.status()["reason"] == "it was asked to by SIGTERM"


def test_the_component_dies_with_its_wrapper(wrapped: Wrapped):
    process = wrapped.start("import time; time.sleep(600)")
    status = wait_for(lambda: wrapped.status() if wrapped.status().get("pid") else None)
    assert status is not None

    process.kill()

    child = ProcessId(int(str(status["pid"])), int(str(status["start_ticks"])))
    wait_for(lambda: not is_alive(child))


def test_the_env_file_is_read_once_and_removed(wrapped: Wrapped, tmp_path: Path):
    env_file = tmp_path / "env.json"
    env_file.touch(0o600)
    env_file.write_text(json.dumps({"API_KEY": "canary $(X)\n"}))

    process = wrapped.start(
        "import os; print(len(os.environ['API_KEY']))", "--env-file", str(env_file)
    )

    assert process.wait(60) == 0
    assert wrapped.log() == b"12\n"
    assert not env_file.exists()


def test_an_env_file_that_others_may_read_is_refused(wrapped: Wrapped, tmp_path: Path):
    env_file = tmp_path / "env.json"
    env_file.write_text("{}")
    env_file.chmod(0o644)

    assert wrapped.start("print(1)", "--env-file", str(env_file)).wait(60) == 70

    assert "can be read by others" in str(wrapped.status()["reason"])
    assert wrapped.log() == b""


def test_a_stalled_reader_of_stdout_does_not_stall_the_component(wrapped: Wrapped):
    process = wrapped.start("print('x' * 3_000_000)")

    wait_for(lambda: wrapped.status().get("end"))

    assert len(wrapped.log()) == 3_000_001
    assert process.poll() is not None or process.wait(60) == 0
