"""A site: a private project, home, backend and local cluster, driven through the real engine.

Everything that a site starts has its PADDOCK_HOME in the environment, so what is left of it can be
found whoever started it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import models
from runtime.claims import read_claims
from runtime.control.dispatch import new_run_stack, new_stack
from runtime.control.private_project import make_private_project
from runtime.control.stacks import Project
from runtime.local_state import LocalRun, read_index
from runtime.observe.local import observe
from runtime.processes import ProcessId, marked_processes, send_signal
from runtime.record import RunRecord, read_record
from runtime.states import RunState
from tests.waiting import wait_for, zombies

ROOT = Path(__file__).parents[2]
PREPARE = f"{ROOT / 'tests/data/engine/stand_in.py'}:prepare"
PADDOCK = str(Path(sys.executable).with_name("paddock"))
MODEL = "tests/nothing"
COMPONENTS = ("inference-0", "env-train-reverse-text", "orchestrator", "trainer-0")
COMMAND_LIMIT_S = 180
UNWANTED = ("PULUMI_", "PADDOCK_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a command printed, both streams apart, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One private world of stacks; `runs` go to its `runs` folder unless they have a volume."""

    folder: Path
    project: Project
    cluster: str = "local"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def state(self) -> Path:
        return self.home / "clusters" / self.cluster

    @property
    def backend(self) -> Path:
        return self.home / "backend"

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.project.environment)

    def start(
        self, *command: str, stdin: int = subprocess.DEVNULL, **extra: str
    ) -> "subprocess.Popen[str]":
        """Start a command in the project, as a person would, in a session of its own."""
        program = PADDOCK if command[0] == "paddock" else command[0]
        flags = ("--non-interactive", "--color", "never") if command[0] == "pulumi" else ()
        return subprocess.Popen(
            [program, *command[1:], *flags],
            cwd=self.project.path,
            env={**self.environment, **extra},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *command: str, expect: int | None = 0, stdin: str | None = None, **extra: str
    ) -> Result:
        """Run a command to its end and return what it printed."""
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self.start(*command, stdin=source, **extra) as process:
            out, err = process.communicate(stdin, timeout=COMMAND_LIMIT_S)
        assert expect is None or process.returncode == expect, out + err
        return Result(code=process.returncode, out=out, err=err)

    def pulumi(self, *arguments: str, expect: int | None = 0, **extra: str) -> Result:
        """Run `pulumi`; what changes or previews a stack is not asked about."""
        yes = ("--yes", "--skip-preview") if arguments[0] in {"up", "destroy"} else ()
        return self.run("pulumi", *arguments, *yes, expect=expect, **extra)

    def paddock(self, *arguments: str, expect: int | None = 0, **extra: str) -> Result:
        """Run `paddock`."""
        return self.run("paddock", *arguments, expect=expect, **extra)

    def write_toml(self, run_id: str, behaviour: str, **replaced: str) -> Path:
        """Write the demo's TOML with the stand-in's behaviour as its name; return its path."""
        text = (ROOT / "examples" / "demo.toml").read_text()
        changes = {
            'name = "reverse-text-hosted"': f'name = "{behaviour}"',
            'name = "paddock/tiny-reverse-text"': f'name = "{MODEL}"',
            **{f"{key} =": f"{key} = {value} #" for key, value in replaced.items()},
        }
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        path = self.project.path / f"{run_id}.toml"
        path.write_text(text)
        return path

    def new_run(self, run_id: str, behaviour: str = "long", **settings: object) -> None:
        """Make a run's stack, as `paddock stack new` does."""
        toml = self.write_toml(run_id, behaviour)
        settings = {"cluster": self.cluster, "config": toml.name, **settings}
        new_run_stack(self.project, run_id, settings, secrets={})

    def up(self, run_id: str, behaviour: str = "long", **settings: object) -> LocalRun:
        """Make a run's stack and bring it up."""
        self.new_run(run_id, behaviour, **settings)
        self.pulumi("up", "-s", run_id)
        return self.local_run(run_id)

    def local_run(self, run_id: str, attempt: int = 1) -> LocalRun:
        """Return where a run of the default run volume is."""
        path = self.project.path / "runs" / run_id
        return LocalRun(state_path=self.state, run_path=path, run_id=run_id, attempt=attempt)

    def record(self, run_id: str) -> RunRecord:
        """Return a run's record."""
        record = read_record(self.local_run(run_id).directory.record)
        assert record is not None
        return record

    def until(self, run_id: str, state: RunState) -> RunRecord:
        """Wait until a run is in a state."""
        wait_for(lambda: self.record(run_id).state is state)
        return self.record(run_id)

    def pids(self, run: LocalRun) -> dict[str, int]:
        """Return the pid of each component's wrapper."""
        return {one.name: one.wrapper.pid for one in observe(run).components}

    def supervisor(self, run: LocalRun) -> int:
        """Return the pid of a run's supervisor."""
        entry = read_index(run.state_path, run.run_id)
        assert entry is not None
        assert entry.supervisor is not None
        return entry.supervisor.pid

    def export(self, stack: str) -> list[dict[str, Any]]:
        """Return the resources of a stack's state, without the stack itself and its providers."""
        answer = json.loads(self.pulumi("stack", "export", "-s", stack).out)
        resources = answer["deployment"].get("resources", [])
        return [one for one in resources if not one["type"].startswith("pulumi:")]

    def processes(self) -> frozenset[ProcessId]:
        """Return every process that this site started, engines and providers among them."""
        home = str(self.home).encode()
        return marked_processes(lambda environment: environment.get(b"PADDOCK_HOME") == home)

    def leftovers(self) -> list[str]:
        """Return what the site's runs still own on this machine; nothing when all is well."""
        found = [f"process {one.pid}: {_command(one.pid)}" for one in self.processes()]
        for folder in ("runs", "private", "sockets"):
            found += [str(path) for path in (self.state / folder).glob("*")]
        found += [str(path) for path in self.backend.glob(".pulumi/locks/**/*.json")]
        found += [f"claim {claim}" for claim in read_claims(self.state)]
        found += [f"zombie {one.pid}" for one in zombies()]
        return found

    def assert_nothing_left(self) -> None:
        """Fail when anything of a run is left in the site, and end it so that no other fails."""
        try:
            wait_for(lambda: not self.leftovers(), timeout_s=15)
        except AssertionError:
            left = self.leftovers()
            self.kill_everything()
            raise AssertionError("left behind:\n" + "\n".join(left)) from None

    def kill_everything(self) -> None:
        """End what a failed test left, so that it fails no other."""
        for process in self.processes():
            send_signal(process, signal.SIGKILL)
        for folder in ("runs", "private", "sockets"):
            for path in (self.state / folder).glob("*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def make_site(folder: Path, *, slots: int = 4, extra: Mapping[str, str] | None = None) -> Site:
    """Make a site with a cluster stack that is not up yet, and a model that is nothing."""
    caller = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    environ = {
        **caller,
        "PADDOCK_HOME": str(folder / "home"),
        "PADDOCK_CACHE": str(folder / "cache"),
        "PULUMI_HOME": str(folder / "pulumi-home"),
        "PADDOCK_PREPARE": PREPARE,
        **(extra or {}),
    }
    model = folder / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    models.add_model(MODEL, model, environ["PADDOCK_CACHE"])
    project = make_private_project(ROOT, folder / "project", environ=environ)
    site = Site(folder=folder, project=project)
    settings = {"kind": "cluster", "target": "local", "slots": slots}
    new_stack(site.project, site.cluster, settings)
    return site


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return "gone"
