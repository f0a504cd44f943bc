"""`[trainer]`: the process group that turns rollouts into weights."""

from pathlib import Path
from typing import Literal

from runtime.config.block import Block, Count, EnvVars
from runtime.config.checkpoint import Resume, TrainerCheckpoint
from runtime.config.monitors import Heartbeat, MetricsServer, TrainerLog, TrainerMonitors
from runtime.config.optim import AdamW, ConstantScheduler, DefaultLoss, Loss, Optim, Scheduler
from runtime.config.trainer_model import Tokenizer, TrainerModel
from runtime.config.transport import (
    FilesystemBroadcast,
    RolloutTransport,
    WeightBroadcast,
    ZMQTransport,
)


class FakeData(Block):
    """Synthetic batches, to measure the trainer alone."""

    batch_size: Count = 2
    """Sequences a step."""

    generate_samples: bool = False
    """Several samples packed in a sequence instead of one."""


class TrainerData(Block):
    """`[trainer.data]`."""

    fake: FakeData | None = None
    """Presence replaces rollouts by synthetic batches: no orchestrator, no inference."""


class GarbageCollection(Block):
    """Python's garbage collector, run by hand so that ranks do not pause one after the other."""

    interval: Count = 50
    """Steps between collections."""


class TrainerConfig(Block):
    """`[trainer]`; must be in the file, an empty table is enough."""

    default_types = {
        "loss": "default",
        "optim": "adamw",
        "scheduler": "constant",
        "weight_broadcast": "filesystem",
        "rollout_transport": "zmq",
    }

    model: TrainerModel = TrainerModel()
    """The weights and how they are held."""

    tokenizer: Tokenizer = Tokenizer()
    """Tokenizer; unset fields are filled from the model."""

    data: TrainerData = TrainerData()
    """Where batches come from."""

    loss: Loss = DefaultLoss()
    """Loss of the reinforcement component."""

    optim: Optim = AdamW()
    """Optimizer."""

    scheduler: Scheduler = ConstantScheduler()
    """Learning rate over time."""

    ckpt: TrainerCheckpoint | None = None
    """Checkpoints of the trainer; normally filled from `[ckpt]`."""

    resume: Resume | None = None
    """Start from a checkpoint; always overwritten from `[resume]`."""

    weight_broadcast: WeightBroadcast = FilesystemBroadcast()
    """How weights leave; always overwritten from `[weight_broadcast]`."""

    rollout_transport: RolloutTransport = ZMQTransport()
    """How batches arrive; the same type as the orchestrator's."""

    log: TrainerLog = TrainerLog()
    """Log of the trainer."""

    monitors: TrainerMonitors = TrainerMonitors()
    """Metrics of the trainer."""

    output_dir: Path = Path("outputs")
    """Run directory; derived, a different value is refused."""

    matmul_precision: Literal["highest", "high", "medium"] = "high"
    """torch.set_float32_matmul_precision."""

    max_steps: Count | None = None
    """Steps to train; unset = until stopped. The same on the orchestrator."""

    enable_router_replay: bool = False
    """Replay the experts that inference chose; turns vLLM's return of them on."""

    memory_profiler_path: Path | None = None
    """Write a CUDA memory snapshot there, relative to the run directory."""

    gc: GarbageCollection | None = GarbageCollection()
    """Garbage collection by hand; "None" leaves Python's."""

    trace_path: Path | None = None
    """Write a profiler trace there; needs `max_steps` below 10, traces are huge."""

    dist_timeout_seconds: Count = 3600
    """Seconds until a collective operation that some rank never joins fails."""

    heartbeat: Heartbeat | None = None
    """Calls a URL every step."""

    metrics_server: MetricsServer | None = None
    """Presence serves Prometheus metrics."""

    enable_token_export: bool = False
    """Write the trained tokens of every step to the run directory."""

    env_vars: EnvVars = {}
    """Environment of the trainer on top of `[env_vars]`."""
