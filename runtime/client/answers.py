"""What a server answers, as frozen models; a field that a newer server adds is passed over.

Their `model_dump` is what `--output json` prints, in the shapes of the `prime` client.
"""

from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from runtime.client.errors import ServerError

_ENDED = frozenset({"COMPLETED", "FAILED", "STOPPED"})


class Answer(BaseModel):
    """An answer, in camelCase on the wire."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class SnakeAnswer(BaseModel):
    """An answer in snake_case on the wire: usage, components."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Environment(Answer):
    """An environment of a run."""

    name: str = ""


class FailureAnalysis(Answer):
    """Why a run failed."""

    root_cause: str = ""
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0


class Run(Answer):
    """A run."""

    id: str
    user_id: str
    team_id: str | None = None
    name: str | None = None
    status: str
    prime_cluster_id: str | None = None
    base_model: str | None = None
    environments: tuple[Environment, ...] = ()
    max_steps: int | None = None
    seq_len: int | None = None
    max_tokens: int | None = None
    batch_size: int | None = None
    rollouts_per_example: int | None = None
    learning_rate: float | None = None
    max_inflight_rollouts: int | None = None
    gpu_count: int | None = None
    volume_name: str | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_run_name: str | None = None
    runs_ahead: int | None = None
    queue_reason: str | None = None
    notice: str | None = None
    error_message: str | None = None
    failure_analysis: FailureAnalysis | None = None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    reason: str = ""
    attempt: int = 1
    teardown: str = ""
    capture: str = ""
    is_adopted: bool = False

    @property
    def is_over(self) -> bool:
        """Tell whether its current attempt has ended for good."""
        return self.status in _ENDED

    @property
    def is_at_rest(self) -> bool:
        """Tell whether nothing of it runs: it is over, or paused."""
        return self.is_over or self.status == "PAUSED"


class RunPage(Answer):
    """One page of runs, and how many there are."""

    runs: tuple[Run, ...]
    total: int


class Dispatched(Answer):
    """A run that was dispatched or resumed, and what an hour of it costs."""

    run_id: str
    on_demand: bool = False
    gpu_type: str | None = None
    price_per_gpu_hour: float | None = None
    estimated_cost_per_hour: float | None = None
    is_beta: bool = False
    notices: tuple[str, ...] = ()


class ModelCluster(Answer):
    """A cluster that has a model in its cache."""

    cluster_id: str
    cluster_name: str
    gpu_type: str | None = None


class Model(Answer):
    """A model that starts warm."""

    name: str
    clusters: tuple[ModelCluster, ...] = ()


class GpuOffer(Answer):
    """A GPU type, its price, and whether one is free."""

    gpu_type: str
    price_per_gpu_hour: float
    discount_label: str | None = None
    available_now: bool = False
    is_beta: bool = False


class ModelList(Answer):
    """The warm models, and the GPU types with their prices."""

    models: tuple[Model, ...] = ()
    on_demand: tuple[GpuOffer, ...] = ()


class Volume(Answer):
    """A volume; status RUNNING means ready."""

    name: str
    status: str
    size: str | None = None
    cluster_id: str
    cluster: str | None = None
    pvc_name: str
    created_by: str | None = None
    created_by_name: str | None = None
    created_by_email: str | None = None
    created_at: str | None = None
    reason: str = ""


class Checkpoint(Answer):
    """A checkpoint."""

    id: str
    rft_run_id: str
    step: int
    storage_url: str
    status: str
    created_at: datetime
    size_bytes: int | None = None
    uploaded_at: datetime | None = None


class Component(SnakeAnswer):
    """A component of a run."""

    name: str
    role: str
    pod_name: str
    status: str


class EnvServer(SnakeAnswer):
    """An env server of a run."""

    env_name: str | None = None
    env_index: int | None = None
    pod_name: str
    status: str


class Components(SnakeAnswer):
    """All components of a run, and the env servers among them once more by name."""

    env_servers: tuple[EnvServer, ...] = ()
    components: tuple[Component, ...] = ()


class Tokens(SnakeAnswer):
    """Tokens of one side of a run; None where the run does not say how many."""

    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float = 0.0


class Usage(SnakeAnswer):
    """What a run has used; the integer is exact."""

    run_id: str
    run_name: str = ""
    base_model: str = ""
    status: str = ""
    training: Tokens
    inference: Tokens
    total_tokens: int | None = None
    total_cost_usd: float = 0.0
    record_count: int = 0
    gpu_hours: float = 0.0
    total_cost_microusd: int = 0


class Team(SnakeAnswer):
    """A team of the user."""

    id: str
    name: str = ""
    slug: str = ""


class Person(SnakeAnswer):
    """Whom an API key stands for."""

    id: str
    name: str = ""
    email: str = ""
    slug: str = ""
    teams: tuple[Team, ...] = Field(default=())
    balance_microusd: int | None = None


AnyAnswer = TypeVar("AnyAnswer", bound=BaseModel)


def read(model: type[AnyAnswer], value: object) -> AnyAnswer:
    """Return an answer as its model. Raises ServerError for what is none."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the answer"
        raise ServerError(
            f"the server's answer is no {model.__name__} ({where}): is the client of its release?"
        ) from None
