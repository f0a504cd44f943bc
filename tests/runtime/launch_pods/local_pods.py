"""A run's pods as processes of this machine: the ConfigMap's files, the image's commands, loopback.

Stands in for kubelet: `prepare` of every pod, then `run`. Nothing is replaced but host names, port
numbers and where the run directory is mounted.
"""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from runtime import pod_layout, pod_names
from runtime.config import LoadedConfig, load_config
from runtime.launch import pods
from runtime.launch.addresses import LOOPBACK, Address, AddressBook
from runtime.launch.commands import component_environment
from runtime.launch.components import Component, build_components
from runtime.plan import RunPlan, build_plan
from tests.embedded.driver import free_ports

ROOT = Path(__file__).resolve().parents[3]
IMAGE = ROOT / "tests/testbed/image"
PROGRAMS = ROOT / "runtime/launch"


@dataclass(kw_only=True)
class LocalPods:
    """The pods of one attempt."""

    path: Path
    plan: RunPlan
    components: tuple[Component, ...]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def run_dir(self) -> Path:
        return self.path / "run"

    def start(self, step: str, component: Component, *words: str) -> subprocess.Popen[bytes]:
        """Start one container of a component's pod."""
        key = pod_names.pod_key(component)
        group = pod_names.replicated_job(component)
        argv = ["python3", "-u", str(self.path / "launch/pod_entry.py"), step, group, *words]
        with (self.path / f"{step}-{key}.log").open("wb") as output:
            process = subprocess.Popen(
                argv,
                env=self._environment(component),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.processes[f"{step}-{key}"] = process
        return process

    def _environment(self, component: Component) -> dict[str, str]:
        paths = f"{IMAGE / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return {
            **component_environment(component, self.plan, env_vars={}),
            "PATH": paths,
            "HOME": str(self.path),
            "HF_HOME": str(self.path / "hf"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PADDOCK_TESTBED_PYTHON": sys.executable,
            "PADDOCK_TESTBED_CHECKOUT": str(ROOT),
            "PADDOCK_TERMINATION_LOG": str(self.path / f"end-{pod_names.pod_key(component)}"),
            "PADDOCK_JOB_INDEX": str(pod_names.job_index(component)),
            "JOB_COMPLETION_INDEX": str(pod_names.pod_index(component)),
        }

    def all(self, step: str, *, timeout_s: float) -> dict[str, int]:
        """Run one step of every pod and return the exit codes by pod key; all, or the first bad."""
        started = {
            pod_names.pod_key(component): self.start(step, component)
            for component in self.components
        }
        deadline = time.monotonic() + timeout_s
        codes: dict[str, int] = {}
        while len(codes) < len(started):
            assert time.monotonic() < deadline, f"{step}: not within {timeout_s} s\n{self.tails()}"
            time.sleep(0.1)
            ended = {key: process.poll() for key, process in started.items()}
            codes = {key: code for key, code in ended.items() if code is not None}
        return codes

    def verdict(self, key: str) -> dict[str, Any]:
        return json.loads((self.path / f"end-{key}").read_text())

    def output(self, name: str) -> str:
        return (self.path / f"{name}.log").read_text(errors="replace")

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run_dir / name).read_text().splitlines()]

    def tails(self) -> str:
        """Return the ends of all outputs, for a failed assertion."""
        ends = (f"--- {name}\n{self.output(name)[-1500:]}" for name in self.processes)
        return "\n".join(ends)

    def close(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def hub_cache(folder: Path, name: str, model: Path) -> None:
    """Lay a model out as the Hugging Face cache at a folder has it."""
    entry = folder / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = entry / "snapshots" / ("0" * 40)
    snapshot.parent.mkdir(parents=True)
    shutil.copytree(model, snapshot)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text("0" * 40)


def make_pods(
    path: Path,
    text: str,
    patch: pytest.MonkeyPatch,
    *,
    processes: int | None = None,
    other: Path | None = None,
) -> LocalPods:
    """Write what the ConfigMap of a run holds, with loopback addresses.

    The run starts with the last checkpoint of the run directory `other`, where one is given.
    """
    loaded: LoadedConfig = load_config(text)
    plan = build_plan(loaded, run_id="run-one")
    if other is not None:
        plan = replace(plan, resume_from="run-before")
        patch.setattr(pod_layout, "OTHER_RUN_DIR", str(other))
    components = build_components(plan)

    def loopback(plan: RunPlan, components: tuple[Component, ...]) -> AddressBook:
        names = [(one.name, port.name) for one in components for port in one.ports]
        ports = free_ports(len(names))
        return {
            name: Address(host=LOOPBACK, port=port) for name, port in zip(names, ports, strict=True)
        }

    patch.setattr(pods, "pod_addresses", loopback)
    patch.setattr(pod_layout, "RUN_DIR", str(path / "run"))
    document = pods.launch_document(
        plan, loaded.config, components, num_processes_per_node=processes
    )
    launch = path / "launch"
    launch.mkdir()
    for program in pod_layout.PROGRAMS:
        shutil.copy(PROGRAMS / program, launch)
    (launch / pod_layout.LAUNCH_FILE).write_text(json.dumps(document))
    (launch / pod_layout.TOML_FILE).write_text(text)
    (path / "run").mkdir()
    return LocalPods(path=path, plan=plan, components=components)
