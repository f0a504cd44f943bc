"""`[orchestrator]`: the process that gathers rollouts, forms batches and paces the others."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from runtime.config.algo import GRPO, AlgoConfig
from runtime.config.block import Block, Count, EnvVars, Port
from runtime.config.checkpoint import OrchestratorCheckpoint, Resume
from runtime.config.client import OrchestratorModel
from runtime.config.monitors import Heartbeat, Log, OrchestratorMonitors
from runtime.config.renderer import AutoRenderer, Renderer
from runtime.config.source import Eval, Source, Train
from runtime.config.trainer_model import Tokenizer
from runtime.config.transport import (
    FilesystemBroadcast,
    RolloutTransport,
    WeightBroadcast,
    ZMQTransport,
)

Role = Literal["prefill", "decode"]


class Concurrency(Block):
    """How many episodes run at once; adapted to what inference can take."""

    initial_inflight: Count | None = None
    """Start with so many instead of ramping up; at least `group_size`."""

    min_inflight: Count = 1
    """Never fewer; equal to `max_inflight` = a fixed number."""

    max_inflight: Count | None = 1024
    """Never more; at least `group_size`. "None" = no ceiling."""


class OrchestratorConfig(Block):
    """`[orchestrator]`; must be in the file, an empty table is enough."""

    default_types = {
        "algo": "grpo",
        "weight_broadcast": "filesystem",
        "rollout_transport": "zmq",
    }

    algo: AlgoConfig = GRPO()
    """Algorithm of all sources that name none."""

    model: OrchestratorModel = OrchestratorModel()
    """The policy and where it is served."""

    train: Train = Train()
    """What is trained on."""

    tokenizer: Tokenizer = Tokenizer()
    """Tokenizer; unset fields are filled from the model."""

    renderer: Renderer = AutoRenderer()
    """How messages become tokens."""

    eval: Eval | None = None
    """What is evaluated on."""

    log: Log = Log()
    """Log of the orchestrator."""

    env_vars: EnvVars = {}
    """Environment of the orchestrator on top of `[env_vars]`."""

    monitors: OrchestratorMonitors = OrchestratorMonitors()
    """Metrics of the orchestrator."""

    collect_inference_metrics: bool = True
    """Copy the engines' metrics to W&B."""

    inference_metrics_roles: list[Role] | None = None
    """Role of each engine in the order of the admin URLs; derived for disaggregated serving."""

    ckpt: OrchestratorCheckpoint | None = None
    """Checkpoints of the orchestrator; normally filled from `[ckpt]`."""

    resume: Resume | None = None
    """Start from a checkpoint; always overwritten from `[resume]`."""

    weight_broadcast: WeightBroadcast = FilesystemBroadcast()
    """How weights arrive; always overwritten from `[weight_broadcast]`."""

    rollout_transport: RolloutTransport = ZMQTransport()
    """How batches leave; the same type as the trainer's."""

    output_dir: Path = Path("outputs")
    """Run directory; derived, a different value is refused."""

    tasks_per_minute: Count | None = None
    """Most tasks to start a minute; unset = no limit."""

    env_server_base_port: Port = 5000
    """Env server i listens on this plus i, training sources first."""

    batch_size: Count | None = None
    """Samples a step; not together with `token_batch_size`, 128 where neither is set."""

    token_batch_size: Count | None = None
    """Tokens a step."""

    concurrency: Concurrency = Concurrency()
    """Episodes at once."""

    group_size: Count = 1
    """Rollouts a task; divides `batch_size`. 1 leaves group-relative advantages at zero."""

    seq_len: Count = 2048
    """Tokens of a training sample; not above `trainer.model.seq_len`."""

    num_train_workers: Count = 1
    """Trainer ranks that take their own share of a batch; derived."""

    pad_to_multiple_of: Count = 1
    """Samples are padded to a multiple of this; derived from `trainer.model.cp`."""

    max_steps: Count | None = None
    """Steps to train; unset = until stopped. The same on the trainer."""

    max_off_policy_steps: Annotated[int, Field(ge=0)] = 8
    """Steps that an episode's oldest token may lag behind the policy; older ones are dropped."""

    heartbeat: Heartbeat | None = None
    """Calls a URL every step."""

    @property
    def sources(self) -> list[tuple[str, Source]]:
        """Return every source with its split, training first: the order of env servers' ports."""
        train: list[tuple[str, Source]] = [("train", source) for source in self.train.source]
        return train + [("eval", source) for source in (self.eval.source if self.eval else [])]
