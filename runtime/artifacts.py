"""The run directory: every path in it, spelled once; prime-rl's layout plus what the wrapper adds.

    runs/<runId>/
      configs/rl.toml                 as the user wrote it; beside it the split files of prime-rl
      configs/plan.json               the plan that started the current attempt
      configs/control-plane           id of the control plane that made the run (local target)
      logs/attempt_N/**/*.log         teed by the wrapper: trainer.log, envs/train/<source>.log
      logs/attempt_N/**/*.log.idx     its index of time and offset
      status/attempt_N/<component>.json   start, heartbeat, end, exit code, signal
      record.json                     the RunRecord (local target)
      metrics.jsonl rollouts/ broadcasts/ checkpoints/

Pure paths; nothing here touches the disk. Used by launch, the engine, observers and the CLI.
"""

from dataclasses import dataclass
from pathlib import Path


def runs_folder(volume: Path) -> Path:
    """Return the folder of a volume, or of a project, that holds its run directories."""
    return volume / "runs"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The directory of one run."""

    path: Path

    @property
    def configs(self) -> Path:
        """Return the folder of the configuration files."""
        return self.path / "configs"

    @property
    def toml(self) -> Path:
        """Return the user's TOML, byte for byte."""
        return self.configs / "rl.toml"

    @property
    def plan(self) -> Path:
        """Return the plan of the current attempt."""
        return self.configs / "plan.json"

    @property
    def control_plane(self) -> Path:
        """Return the file with the id of the control plane that made the run, where one did."""
        return self.configs / "control-plane"

    def logs(self, attempt: int) -> Path:
        """Return the log folder of an attempt."""
        return self.path / "logs" / f"attempt_{attempt}"

    def status_folder(self, attempt: int) -> Path:
        """Return the folder of the wrappers' status files of an attempt."""
        return self.path / "status" / f"attempt_{attempt}"

    def status(self, attempt: int, component: str) -> Path:
        """Return the wrapper's status file of a component."""
        return self.status_folder(attempt) / f"{component}.json"

    @property
    def record(self) -> Path:
        """Return the run record (local target)."""
        return self.path / "record.json"

    @property
    def metrics(self) -> Path:
        """Return the metrics file that trainer and orchestrator append to."""
        return self.path / "metrics.jsonl"

    @property
    def rollouts(self) -> Path:
        """Return the rollouts folder."""
        return self.path / "rollouts"

    @property
    def broadcasts(self) -> Path:
        """Return the weight broadcast folder."""
        return self.path / "broadcasts"

    @property
    def checkpoints(self) -> Path:
        """Return the checkpoints folder."""
        return self.path / "checkpoints"
