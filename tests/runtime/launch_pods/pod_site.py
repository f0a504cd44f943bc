"""A pod's mounts as folders of a test, with the programs that it starts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime.launch import pod_entry

PROGRAMS = Path(pod_entry.__file__).parent
TIMEOUT_S = 60
Json = dict[str, Any]


def document(run_dir: Path, **changes: object) -> Json:
    entry = {"log": "x.log", "config": None, "commands": [], "files": {}}
    parts = (("orchestrator", "orchestrator", 0), ("trainer", "trainer-0", 1))
    pods = {
        f"{group}-0-0": {"component": component, "num_gpus": num_gpus, **entry}
        for group, component, num_gpus in parts
    }
    return {
        "run_dir": str(run_dir),
        "attempt": 1,
        "gate": True,
        "resume": "as written",
        "clean_past": "start",
        "checkpoint_parts": ["trainer", "orchestrator"],
        "first_checkpoint": None,
        "pods": pods,
        **changes,
    }


class Site:
    """A pod's mounts, with a resolve.py that a test writes."""

    def __init__(self, path: Path, **changes: object) -> None:
        self.path = path
        self.run_dir = path / "run"
        self.launch = path / "launch"
        self.status = self.run_dir / "status/attempt_1"
        self.run_dir.mkdir()
        self.launch.mkdir()
        shutil.copy(PROGRAMS / "pod_entry.py", self.launch)
        shutil.copy(PROGRAMS / "wrapper.py", self.launch)
        shutil.copy(PROGRAMS / "ranks.py", self.launch)
        shutil.copy(PROGRAMS / "first_checkpoint.py", self.launch)
        (self.launch / "launch.json").write_text(json.dumps(document(self.run_dir, **changes)))
        (self.launch / "resolve.py").write_text("import sys; print('resolved', sys.argv[1:])")

    def start(self, step: str, group: str, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, str(self.launch / "pod_entry.py"), step, group, *words]
        environment = os.environ | {"PADDOCK_TERMINATION_LOG": str(self.path / f"end-{group}")}
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=environment, stdout=pipe, stderr=pipe, text=True)

    def verdict(self, group: str) -> Json:
        return json.loads((self.path / f"end-{group}").read_text())

    def pod(self, patch: pytest.MonkeyPatch, group: str) -> pod_entry.Pod:
        patch.setattr(pod_entry, "HERE", self.launch)
        return pod_entry.Pod(group)


def folders(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)
