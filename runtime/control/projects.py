"""The private folder of each run that the control plane drives: project, engine's home, report.

    PADDOCK_HOME/projects/<run_id>/     0700
      Pulumi.yaml stacks/               the private project (`runtime.control.private_project`)
      engine/                           its PULUMI_HOME
      operation.json                    0600: the newest operation, who performs it, how it ended
      operation.log                     0600: what the engine said
      kept                              id of the operation after which the settings were stored

Written by the operator and its workers on this host; the store has what other hosts need.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runtime import homes, naming
from runtime.control.operations import OperationReport
from runtime.control.private_project import make_private_project
from runtime.control.stacks import Project
from runtime.local_state import write_json
from runtime.processes import ProcessId

_PULUMI_HOME = "PULUMI_HOME"
_PLUGINS, _LOGIN = "plugins", "credentials.json"
"""What of the user's own PULUMI_HOME every operation uses: the one is large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PerformedReport:
    """A report as it lies in the folder, with the process that performs the operation."""

    report: OperationReport
    worker: ProcessId | None = None
    ends_by: float = 0.0
    """Seconds since the epoch; whatever of the operation lives after that is killed."""


_REPORT = TypeAdapter(PerformedReport)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path
    run_id: str

    @property
    def settings(self) -> Path:
        """Return the settings file of the run's stack."""
        return self.path / "stacks" / f"Pulumi.{self.run_id}.yaml"

    @property
    def log(self) -> Path:
        """Return what the engine said in the newest operation."""
        return self.path / "operation.log"

    @property
    def kept(self) -> Path:
        """Return the note of the operation after which the settings file was stored."""
        return self.path / "kept"

    def make(self) -> None:
        """Make the folder, readable by its owner only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def write(self, performed: PerformedReport) -> None:
        """Write the newest operation in one step."""
        write_json(self.path / "operation.json", _REPORT.dump_python(performed, mode="json"))

    def read(self) -> PerformedReport | None:
        """Return the newest operation, None where there is none or nobody can read it."""
        try:
            return _REPORT.validate_json((self.path / "operation.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def restore_settings(self, text: str) -> None:
        """Write the settings file as the store has it."""
        self.settings.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.settings.with_name(f".{self.settings.name}.tmp")
        temporary.write_text(text)
        temporary.replace(self.settings)

    def open_project(self, checkout: Path, environ: Mapping[str, str]) -> Project:
        """Make the private project of a checkout's program with an engine's home of its own."""
        engine = self.path / "engine"
        engine.mkdir(mode=0o700, parents=True, exist_ok=True)
        users = shared_engine_home(environ)
        with contextlib.suppress(FileExistsError):
            (engine / _PLUGINS).symlink_to(_plugins_folder(users))
        with contextlib.suppress(FileExistsError):
            if (users / _LOGIN).exists():
                (engine / _LOGIN).symlink_to(users / _LOGIN)
        own = {_PULUMI_HOME: str(engine), naming.ENV_REPEATED_UPDATE: "1"}
        return make_private_project(checkout, self.path, environ={**environ, **own})

    def remove(self) -> None:
        """Remove everything; a folder that is gone is fine."""
        shutil.rmtree(self.path, ignore_errors=True)


def run_folder(run_id: str, home: Path | None = None) -> RunFolder:
    """Return the folder of a run's private project; nothing is made."""
    assert naming.is_run_id(run_id), "an id is a path here"
    return RunFolder(path=(home or homes.home_path()) / "projects" / run_id, run_id=run_id)


def shared_engine_home(environ: Mapping[str, str]) -> Path:
    """Return the user's PULUMI_HOME."""
    given = environ.get(_PULUMI_HOME)
    return Path(given).expanduser() if given else Path(environ.get("HOME", "~")) / ".pulumi"


def _plugins_folder(users: Path) -> Path:
    """Return the folder of the engine's plugins, one of ours where the user has none."""
    if (users / _PLUGINS).is_dir():
        return users / _PLUGINS
    folder = homes.cache_path() / "engine-plugins"  # else each operation would download them
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_log(folder: RunFolder) -> int:
    """Return a descriptor of the folder's log, emptied."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.open(folder.log, flags, 0o600)
