"""Dispatch, pause and resume on the wire."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, SecretStr

from runtime.control.planned_price import planned_usd_per_hour
from runtime.control.requests import CreateRun, ResumeRun
from runtime.control.values import StoredRun
from runtime.control.wire.config_text import config_text
from runtime.control.wire.model import MAX_INTEGER, Answer, Request, Text, at_most
from runtime.control.wire.texts import sound
from runtime.credentials import check_environment
from runtime.errors import Problem, RefusedError
from runtime.limits import MAX_CONFIG_BYTES, MAX_SECRETS_PER_RUN
from runtime.secret_rules import secret_problems
from runtime.states import RunState

HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the name
WANDB_API_KEY = "WANDB_API_KEY"
UNUSED_TOKEN = "unused"  # noqa: S105 - the client wants a text and never shows it

_MAX_ENV = 4 * MAX_SECRETS_PER_RUN
_MAX_ENVIRONMENTS = 64

Env = Annotated[dict[str, SecretStr], Field(max_length=_MAX_ENV), at_most(_MAX_ENV)]
"""Secrets by name; the rules count and name them, this only bounds what is parsed."""

Environment = Annotated[Text, AfterValidator(check_environment)]
"""A requirement spec."""

Environments = Annotated[
    tuple[Environment, ...], Field(max_length=_MAX_ENVIRONMENTS), at_most(_MAX_ENVIRONMENTS)
]
"""What a run installs at start."""


class SecretsBody(Request):
    """The secrets of a request: two fields of the `prime` client, and a map of paddock's own."""

    wandb_api_key: SecretStr | None = None
    hf_token: SecretStr | None = None
    env: Env = Field(default_factory=dict)

    def secrets(self) -> dict[str, str]:
        """Return the values by name. Raises RefusedError, which names keys only."""
        given = dict(self.env)
        for name, value in ((WANDB_API_KEY, self.wandb_api_key), (HF_TOKEN, self.hf_token)):
            if value is not None and value.get_secret_value():
                given[name] = value
        values = {name: value.get_secret_value() for name, value in given.items()}
        problems = secret_problems(values)
        if problems:
            raise RefusedError(problems)
        return values


class PrepareBody(Request):
    """What the client asks before it dispatches."""

    mode: str | None = None
    team_id: Text | None = None
    image_tag: Text | None = None
    source_ref: Text | None = None


class CreateRunBody(SecretsBody):
    """A run to dispatch.

    `config` is the file as a table, or `configText` as it stands; `env`, `environments`,
    `configText` and `maxSpendMicrousd` are sent by `paddock train` only.
    """

    config: dict[str, JsonValue] | None = None
    config_text: Annotated[str, Field(max_length=MAX_CONFIG_BYTES)] | None = None
    mode: str | None = None
    name: str | None = None
    """Judged with the config, whose own name it takes the place of."""
    team_id: Text | None = None
    image_tag: Text | None = None
    gpu_type: Text | None = None
    volume: Text | None = None
    source_ref: Text | None = None
    resume_from: Text | None = None
    normalized_config: dict[str, JsonValue] | None = None
    """What the client's own validation made of the file; the server judges the file itself."""
    environments: Environments = ()
    max_spend_microusd: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None

    def to_request(self, team_id: str | None) -> CreateRun:
        """Return the request. Raises RefusedError for what is not served, ConfigError for null."""
        check_mode(self.mode)
        check_source_ref(self.source_ref)
        if (self.config is None) == (self.config_text is None):
            raise _not_served("config and configText both or neither", "send one of them")
        text = self.config_text if self.config is None else config_text(self.config)
        assert text is not None, "one of the two is there"
        return CreateRun(
            config_text=text,
            name=self.name,
            team_id=team_id,
            image_tag=self.image_tag,
            gpu_type=self.gpu_type,
            volume=self.volume,
            resume_from=self.resume_from,
            environments=self.environments,
            max_spend_microusd=self.max_spend_microusd,
            secrets=self.secrets(),
        )


class ResumeRunBody(SecretsBody):
    """What a new attempt of a paused run changes."""

    gpu_type: Text | None = None
    image_tag: Text | None = None

    def to_request(self) -> ResumeRun:
        """Return the request. Raises RefusedError for a secret that breaks a rule."""
        return ResumeRun(gpu_type=self.gpu_type, image_tag=self.image_tag, secrets=self.secrets())


class DispatchedRun(Answer):
    """A run that was dispatched or resumed, and what an hour of it costs.

    `notices`, paddock's own, say how the file is read here and what may fail at start.
    """

    run_id: str
    token_value: str = UNUSED_TOKEN
    on_demand: bool = False
    gpu_type: str | None = None
    price_per_gpu_hour: float | None = None
    estimated_cost_per_hour: float | None = None
    is_beta: bool = False
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: StoredRun, notices: Sequence[str] = ()) -> "DispatchedRun":
        """Return the answer; the client prints a price only where `onDemand` is set."""
        price = planned_usd_per_hour(run)
        return cls(
            run_id=run.run_id,
            gpu_type=run.gpu_type,
            on_demand=bool(price),
            price_per_gpu_hour=price / run.num_gpus if price and run.num_gpus else None,
            estimated_cost_per_hour=price or None,
            notices=tuple(map(sound, notices)),
        )


class PausedRun(Answer):
    """Where a run is on its way to PAUSED."""

    status: str

    @classmethod
    def of(cls, run: StoredRun) -> "PausedRun":
        """Return PAUSING from the wish on, which the row's state follows at the next pass."""
        is_there = run.state is RunState.PAUSED
        return cls(status=RunState.PAUSED if is_there else RunState.PAUSING)


def check_mode(mode: str | None) -> None:
    """Refuse every kind of training but RL."""
    if mode not in (None, "rl"):
        raise _not_served(f"mode {mode[:16]!r}", 'RL runs only: mode "rl", or none')


def check_source_ref(source_ref: str | None) -> None:
    """Refuse a branch of prime-rl's repository: what runs is in an image."""
    if source_ref is not None:
        raise _not_served("sourceRef", "choose a build of prime-rl with image_tag")


def _not_served(what: str, fix: str) -> RefusedError:
    return RefusedError([Problem(message=f"{what}: not served here", fix=fix, code="not_served")])
