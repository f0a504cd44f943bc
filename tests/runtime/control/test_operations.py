"""One operation of the engine, played by a script."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.control import engine_call
from runtime.control.engine_call import KilledError
from runtime.control.stacks import Project, forget_stack, list_stacks, up
from runtime.errors import StackError


def project_of(folder: Path, script: str) -> Project:
    """Return a project whose `pulumi` is a shell script."""
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Project(path=folder, environment={"PATH": f"{folder}:/usr/bin:/bin"})


def test_an_operation_over_its_limit_says_so_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_of(tmp_path, "echo Updating; exec sleep 60")
    monkeypatch.setattr(engine_call, "_TIMEOUT_S", 0.5)
    lines: list[str] = []

    with pytest.raises(StackError, match=r"not done within 0\.5 s .*`paddock destroy`") as raised:
        up(project, "one", lines.append)

    assert lines == ["Updating"]
    assert "exit code" not in str(raised.value)


def test_an_engine_that_says_much_as_it_is_interrupted_is_not_killed_for_it(tmp_path: Path) -> None:
    done = tmp_path / "done"
    project = project_of(tmp_path, f"exec {sys.executable} {tmp_path / 'engine.py'}")
    (tmp_path / "engine.py").write_text(  # no shell traps a signal that it was started without
        "import os, pathlib, signal, sys, time\n"
        "def end(*_):\n"  # may come within a print, whose buffer no handler may write to
        "    os.write(1, b'x' * 300_000)  # more than a pipe holds\n"
        f"    pathlib.Path({str(done)!r}).touch()\n"
        "    sys.exit(255)\n"
        "signal.signal(signal.SIGINT, end)\n"
        "print('Updating', flush=True)\n"
        "time.sleep(60)\n"
    )

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(project, "one", interrupt)

    assert done.exists()


def test_an_operation_that_fails_in_time_says_what_the_engine_said(tmp_path: Path) -> None:
    project = project_of(tmp_path, "echo no backend >&2; exit 3")

    with pytest.raises(StackError, match="failed with exit code 3\nno backend"):
        list_stacks(project)


def test_an_engine_that_is_killed_is_no_failure_of_its_program(tmp_path: Path) -> None:
    project = project_of(tmp_path, "echo Updating; kill -9 $$")

    with pytest.raises(KilledError, match=r"^pulumi up \S+ was killed by signal 9$"):
        up(project, "one", lambda _: None)


VANISHED = "error: list bucket: blob (code=NotFound): lstat /b/.pulumi/stacks/two.json.18ed.tmp"


@pytest.mark.parametrize(
    ("said", "num_failures", "expected"),
    [
        (f"{VANISHED}: no such file or directory", 2, 3),
        (f"{VANISHED}: no such file or directory", 9, 3),
        ("error: stack two is not there", 9, 1),
    ],
)
def test_a_file_of_another_engine_that_passed_is_no_failure(
    tmp_path: Path, said: str, num_failures: int, expected: int
) -> None:
    count = tmp_path / "count"
    fails = f"[ $(wc -l < {count}) -gt {num_failures} ] || {{ echo '{said}' >&2; exit 255; }}"
    project = project_of(tmp_path, f"echo >> {count}; {fails}; echo '[]'")

    if num_failures < expected:
        assert list_stacks(project) == []
    else:
        with pytest.raises(StackError, match="exit code 255"):
            list_stacks(project)

    assert len(count.read_text().splitlines()) == expected


def test_a_stack_that_a_killed_engine_removed_leaves_no_lock(tmp_path: Path) -> None:
    project = project_of(tmp_path, "exit 1")
    backend = tmp_path / "backend"
    project = replace(
        project, environment={**project.environment, "PULUMI_BACKEND_URL": f"file://{backend}"}
    )
    folder = backend / ".pulumi/locks/organization/paddock/one"
    folder.mkdir(parents=True)
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    now = datetime.now(UTC).isoformat()
    for name, pid, host in (
        ("dead", dead.pid, socket.gethostname()),
        ("alive", os.getpid(), socket.gethostname()),
        ("elsewhere", dead.pid, "another-host"),
    ):
        lock = {"pid": pid, "hostname": host, "timestamp": now}
        (folder / f"{name}.json").write_text(json.dumps(lock))
        (folder / f"{name}.json.attrs").write_text("{}")

    forget_stack(project, "one")

    left = sorted(path.name for path in folder.iterdir())
    assert left == ["alive.json", "alive.json.attrs", "elsewhere.json", "elsewhere.json.attrs"]
