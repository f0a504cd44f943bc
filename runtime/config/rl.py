"""The whole file: shared tables at the top, and the three components that they are copied into."""

from pathlib import Path

from runtime.config.block import Block, Count, EnvVars
from runtime.config.checkpoint import Resume, SharedCheckpoint
from runtime.config.deployment import Deployment, SingleNodeDeployment
from runtime.config.inference import InferenceConfig
from runtime.config.monitors import SharedLog, SharedMonitors
from runtime.config.orchestrator import OrchestratorConfig
from runtime.config.slurm import Slurm
from runtime.config.trainer import TrainerConfig
from runtime.config.trainer_model import SharedModel, Tokenizer
from runtime.config.transport import RolloutTransport, SharedWeightBroadcast


class Run(Block):
    """`[run]`: what the run is called."""

    name: str | None = None
    """Display name, not the run id: one line of at most 256 characters; `name` at the top of the
    file is the same. Unset = made from sources and model."""

    dir: str | None = None
    """Directory under `output_dir`; ignored, paddock's is runs/<runId>."""


class RLConfig(Block):
    """A prime-rl RL config."""

    default_types = {"deployment": "single_node", "rollout_transport": "zmq"}

    trainer: TrainerConfig
    """The trainer; an empty table is enough."""

    orchestrator: OrchestratorConfig
    """The orchestrator; an empty table is enough."""

    inference: InferenceConfig | None = None
    """The inference engines; absent = the policy is served elsewhere."""

    env_vars: EnvVars = {}
    """Environment of every component; names that the launcher owns are refused, and so are secrets:
    pass those with -e."""

    run: Run = Run()
    """What the run is called."""

    output_dir: Path = Path("outputs")
    """Parent of run directories; ignored, paddock's is runs/."""

    clean: bool = False
    """Wipe the run directory first; true is refused, the volume may hold somebody's checkpoints."""

    log: SharedLog = SharedLog()
    """Log of all components."""

    ckpt: SharedCheckpoint | None = None
    """Checkpoints; absent = nothing is saved."""

    resume: Resume | None = None
    """Start from a checkpoint."""

    monitors: SharedMonitors = SharedMonitors()
    """Metrics of trainer and orchestrator."""

    model: SharedModel | None = None
    """The model of all components."""

    tokenizer: Tokenizer | None = None
    """The tokenizer of all components."""

    max_steps: Count | None = None
    """Steps to train; unset = until stopped."""

    seq_len: Count | None = None
    """Tokens of a sequence, for trainer and orchestrator."""

    weight_broadcast: SharedWeightBroadcast | None = None
    """How weights travel; unset = nccl, or filesystem with LoRA or without `[inference]`."""

    rollout_transport: RolloutTransport | None = None
    """How rollouts travel; unset = zmq."""

    deployment: Deployment = SingleNodeDeployment()
    """GPUs and nodes."""

    slurm: Slurm | None = None
    """Accepted and ignored."""

    dry_run: bool = False
    """Accepted and ignored: use `paddock plan`."""
