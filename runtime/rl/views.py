"""What the embedded engine reads of a component's configuration: views of prime-rl's dumps.

The split files are dumps of the strict models in `runtime.config`, so these models name what is
read and skip the rest; `runtime.launch.unsupported` says what that means for a run. Imports neither
torch nor verifiers.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

JsonTable = dict[str, Any]  # Any: JSON on its way to another library's own validation


class View(BaseModel):
    """A part of a validated dump; keys that the engine does not read are skipped."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class LogView(View):
    """Console settings."""

    level: str = "info"
    json_logging: bool = False


class FileMonitorView(View):
    """Where metrics rows go, relative to the run directory."""

    path: Path = Path("metrics.jsonl")


class MonitorsView(View):
    """The monitors that this engine has."""

    file: FileMonitorView | None = FileMonitorView()


class CheckpointView(View):
    """When to save, and what to keep."""

    interval: int | None = None
    keep_last: int | None = None
    keep_interval: int | None = None
    skip_optimizer: bool = False


class ResumeView(View):
    """Where to go on: a step, a folder, or (both empty) the newest checkpoint."""

    step: int | None = None
    dir: Path | None = None


class LossView(View):
    """Thresholds and weights of prime-rl's default loss."""

    type: str = "default"
    dppo_mask_low: float = 0.2
    dppo_mask_high: float = 0.2
    adv_tau: float = 1.0
    kl_tau: float = 1e-3


class OptimizerView(View):
    """AdamW, or SGD where the file says so."""

    type: str = "adamw"
    lr: float = 1e-6
    weight_decay: float = 0.01
    max_norm: float | None = 1.0
    betas1: float = 0.9
    betas2: float = 0.999
    momentum: float = 0.9
    nesterov: bool = True


class SchedulerView(View):
    """Learning-rate schedule."""

    type: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 10
    decay_steps: int = 10
    min_lr: float = 0.0


class TrainerModelView(View):
    """The trained model."""

    name: str
    seq_len: int = 2048
    trust_remote_code: bool = False


class MetricsServerView(View):
    """Where the trainer answers /health."""

    host: str = "0.0.0.0"  # noqa: S104 - prime-rl's default, in a pod
    port: int = 8000


class TrainerView(View):
    """trainer.json."""

    model: TrainerModelView
    loss: LossView = LossView()
    optim: OptimizerView = OptimizerView()
    scheduler: SchedulerView = SchedulerView()
    ckpt: CheckpointView | None = None
    resume: ResumeView | None = None
    log: LogView = LogView()
    monitors: MonitorsView = MonitorsView()
    output_dir: Path
    max_steps: int | None = None
    dist_timeout_seconds: int = 3600
    metrics_server: MetricsServerView | None = None


class ServerView(View):
    """Where the engine listens."""

    host: str | None = None
    port: int = 8000
    liveness_timeout_seconds: float = 30.0


class VllmView(View):
    """The served model."""

    model: str
    dtype: str = "auto"
    max_model_len: int | None = None
    seed: int = 0
    trust_remote_code: bool = False


class InferenceView(View):
    """inference.json."""

    server: ServerView = ServerView()
    vllm: VllmView
    log: LogView = LogView()


class ClientView(View):
    """How the orchestrator reaches the engines."""

    base_url: str = "http://localhost:8000/v1"
    admin_base_url: list[str] | None = None
    api_key_var: str = "VLLM_API_KEY"
    headers: dict[str, str] = {}
    wait_for_ready_timeout: float = 1800.0


class PolicyView(View):
    """The policy that the orchestrator samples from."""

    name: str
    client: ClientView = ClientView()


class SamplingView(View):
    """Sampling of one source; unset values are left to the engine."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_completion_tokens: int | None = None
    extra_body: JsonTable = {}


class ServeView(View):
    """Where a source's env server listens, and how it is shaped."""

    address: str | None = None
    pool: JsonTable = {}
    max_concurrent: int | None = None


class SourceView(View):
    """One environment of the run; `env` is for verifiers to validate."""

    name: str
    env: JsonTable
    serve: ServeView = ServeView()
    ratio: float | None = None
    sampling: SamplingView = SamplingView()
    group_size: int | None = None
    num_examples: int = -1
    interval: int = 100
    skip_first_step: bool = False


class TrainView(View):
    """[orchestrator.train]."""

    source: list[SourceView] = []
    filter_zero_advantages: bool = True


class EvalView(View):
    """[orchestrator.eval]; sources carry the resolved interval, sampling and counts."""

    source: list[SourceView] = []


class ConcurrencyView(View):
    """Bounds on the episodes in flight."""

    initial_inflight: int | None = None
    max_inflight: int | None = 1024


class TokenizerView(View):
    """The tokenizer that env servers render with."""

    name: str | None = None


class TransportView(View):
    """How weights or rollouts are meant to travel; here it is always by files."""

    type: str = "filesystem"


class OrchestratorView(View):
    """orchestrator.json."""

    model: PolicyView
    train: TrainView = TrainView()
    eval: EvalView | None = None
    tokenizer: TokenizerView = TokenizerView()
    renderer: JsonTable = {}
    weight_broadcast: TransportView = TransportView()
    rollout_transport: TransportView = TransportView()
    log: LogView = LogView()
    monitors: MonitorsView = MonitorsView()
    ckpt: CheckpointView | None = None
    resume: ResumeView | None = None
    output_dir: Path
    batch_size: int | None = Field(default=None, ge=1)
    token_batch_size: int | None = Field(default=None, ge=1)
    concurrency: ConcurrencyView = ConcurrencyView()
    group_size: int = Field(default=1, ge=1)
    seq_len: int = 2048
    num_train_workers: int = 1
    max_steps: int | None = None
    max_off_policy_steps: int = 8


class EnvServerView(View):
    """configs/envs/<split>/<source>.json."""

    env: JsonTable
    serve: ServeView
    log: LogView = LogView()
