"""`[monitors]`, `[log]`, heartbeats and the Prometheus endpoint: what a run tells the outside.

The shared tables are copied into those of trainer and orchestrator before validation.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from runtime.config.block import Block, Port


class SharedLog(Block):
    """`[log]`: one setting for trainer, orchestrator and inference."""

    level: str | None = None
    """Loguru level of the three components; unset = each component's own, "info"."""

    json_logging: bool = False
    """One JSON object a line instead of text, for log collectors."""


class Log(Block):
    """The log of one component."""

    level: str = "info"
    """Loguru level of prime-rl's own lines."""

    vf_level: str = "info"
    """Level of the verifiers package's lines."""

    json_logging: bool = False
    """One JSON object a line instead of text."""

    log_data: bool = False
    """Print the first samples of each batch; long, and it shows the data."""

    interval: Annotated[float, Field(gt=0)] = 10.0
    """Seconds between two progress lines."""


class TrainerLog(Log):
    """The trainer's log, which many ranks write."""

    ranks_filter: list[int] = [0]
    """Local ranks whose lines reach the console; the others write files only."""


class SharedWandb(Block):
    """`[monitors.wandb]`: one Weights & Biases run for trainer and orchestrator."""

    project: str | None = "prime-rl"
    """Project that the run appears in."""

    entity: str | None = None
    """Team or user; unset = the key's default."""

    name: str | None = None
    """Name shown in W&B; unset = `run.name`."""

    group: str | None = None
    """Group that the run is listed under."""

    tags: list[str] | None = None
    """Tags of the run."""

    offline: bool | None = False
    """Must stay false: both components write into one run, which needs the server."""


class Wandb(Block):
    """The W&B monitor of one component."""

    project: str = "prime-rl"
    """Project that the run appears in; the same on both components."""

    entity: str | None = None
    """Team or user; unset = the key's default."""

    name: str | None = None
    """Name shown in W&B; unset = `run.name`."""

    group: str | None = None
    """Group that the run is listed under."""

    tags: list[str] | None = None
    """Tags of the run."""

    offline: bool = False
    """Write to disk instead of the server."""


class FileMonitor(Block):
    """Metrics as JSON lines in the run directory."""

    path: Path = Path("metrics.jsonl")
    """File, relative to the run directory."""


class PrimeMonitor(Block):
    """Metrics and samples sent to the platform; needs PRIME_API_KEY."""

    name: str | None = None
    """Name of the run on the platform; unset = the W&B name, else `run.name`."""


class SharedMonitors(Block):
    """`[monitors]`: shared by trainer and orchestrator."""

    wandb: SharedWandb | None = None
    """Presence turns W&B on; stripped with a notice where no WANDB_API_KEY is passed."""

    file: FileMonitor | None = None
    """Where metrics.jsonl goes; both components write it unless this is "None"."""

    prime: PrimeMonitor | None = None
    """Presence turns the platform monitor of the orchestrator on."""


class TrainerMonitors(Block):
    """`[trainer.monitors]`."""

    wandb: Wandb | None = None
    """W&B of the trainer; normally filled from `[monitors.wandb]`."""

    file: FileMonitor | None = FileMonitor()
    """metrics.jsonl of the trainer, on by default: paddock reads it."""


class OrchestratorMonitors(TrainerMonitors):
    """`[orchestrator.monitors]`."""

    prime: PrimeMonitor | None = None
    """The platform monitor, which only the orchestrator has."""


class Heartbeat(Block):
    """A URL that is called while the component makes progress."""

    url: str
    """Called once a step; an uptime service raises the alarm when calls stop."""


class MetricsServer(Block):
    """Prometheus metrics and /health of the trainer."""

    port: Port = 8000
    """Port to listen on; the inference server's default too, so change one on a shared host."""

    host: str = "0.0.0.0"  # noqa: S104 - prime-rl's default; the pod's network policy closes it
    """Address to bind."""
