"""A source's `env` table: the taskset, and the agents that work on its tasks.

Tasksets and harnesses are packages with keys of their own, which paddock never imports, so their
tables are open. A multi-agent taskset names its seats itself (`env.player` instead of `env.agent`):
any further table of `env` is read as such a seat, any other value as a setting of the package.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from runtime.config.block import Block, Count, OpenBlock
from runtime.config.env_runtime import (
    AgentClient,
    ElasticInterception,
    Interception,
    PrimeRuntime,
    Runtime,
)

MISPLACED_IN_ENV = ("harness", "runtime")


class JudgeSampling(OpenBlock):
    """How a judge or an agent of its own model generates."""

    temperature: float | None = None
    """Temperature; unset = the server's default."""

    top_p: float | None = None
    """Nucleus; unset = the server's default."""

    reasoning_effort: str | None = None
    """How much the model thinks; unset = the server's default."""

    max_tokens: Annotated[
        int | None, Field(validation_alias=AliasChoices("max_tokens", "max_completion_tokens"))
    ] = None
    """Tokens an answer; `max_completion_tokens` is the same."""


class Judge(OpenBlock):
    """A model served elsewhere that scores answers."""

    base_url: str = "https://api.pinference.ai/api/v1"
    """OpenAI-compatible endpoint."""

    api_key_var: str = "PRIME_API_KEY"
    """Name of the environment variable that holds the key; never the key."""

    headers: dict[str, str] = {}
    """Headers of every request; no secrets, the file is stored."""

    id: str = ""
    """Kind of judge, a package or one of the built-in ones."""

    name: str = ""
    """Name of its reward; unset = the id."""

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    """Weight in the sum of rewards."""

    model: str = "openai/gpt-5.4-nano"
    """Model name sent with each request."""

    sampling: JudgeSampling = JudgeSampling()
    """How it generates."""

    prompt: Path | None = None
    """File with the prompt; unset = the judge's own."""


class DecoratedFunction(Block):
    """A stop or metric function, switched or replaced by name."""

    fn: str | None = None
    """Dotted path of another function; unset = the taskset's."""

    priority: int | None = None
    """Order among functions; unset = the taskset's."""


class RewardFunction(DecoratedFunction):
    """A reward function, switched or replaced by name."""

    weight: float | None = None
    """Weight in the sum of rewards; unset = the taskset's."""


class Task(OpenBlock):
    """`env.taskset.task`: how a task is scored and ended."""

    judges: list[Judge] = []
    """Judges besides the taskset's own."""

    stops: dict[str, DecoratedFunction] = {}
    """Stop functions by name."""

    metrics: dict[str, DecoratedFunction] = {}
    """Metric functions by name."""

    rewards: dict[str, RewardFunction] = {}
    """Reward functions by name."""


class Taskset(OpenBlock):
    """`env.taskset`; further keys are the package's own."""

    id: str = ""
    """The package, as `[owner/]name[@version]`."""

    task: Task = Task()
    """Scoring and stopping."""

    system_prompt: Path | None = None
    """File or text of the system message; unset = the taskset's own."""


class EnvTimeout(Block):
    """Limits of a whole episode."""

    episode: float | None = None
    """Seconds for all agents together; unset = none."""

    finalize: float | None = None
    """Seconds for the end of an episode; unset = none."""


class Retry(Block):
    """What is tried again after an error."""

    max_retries: Annotated[int, Field(ge=0)] = 0
    """Further attempts."""

    include: list[str] = []
    """Names of errors to try again; empty = all."""

    exclude: list[str] = []
    """Names of errors to give up on."""


class Harness(OpenBlock):
    """The program that talks to the model; further keys are its own."""

    id: str = "bash"
    """The harness: bash, null, codex, claude_code, mini_swe_agent and others, or a package."""

    env: dict[str, str] = {}
    """Environment of the harness; no secrets, the file is stored."""

    forward_env: list[str] = []
    """Names of variables of the env server to pass on: the way for secrets."""

    tool_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0
    """Seconds a tool call."""

    disabled_tools: list[str] | None = None
    """Tools of the harness to leave out."""

    skills: list[Path] = []
    """Directories of skills to offer."""


class AgentTimeout(Block):
    """Limits of one agent."""

    setup: float | None = None
    """Seconds to prepare its runtime; unset = none."""

    rollout: float | None = None
    """Seconds to work; unset = none."""

    finalize: float | None = None
    """Seconds to clean up; unset = none."""

    scoring: float | None = None
    """Seconds to be scored; unset = none."""


class Agent(Block):
    """The seat of a single-agent environment."""

    default_types = {"runtime": "prime"}

    harness: Harness | None = None
    """The program that talks to the model; unset = the taskset's, else bash."""

    runtime: Runtime = PrimeRuntime()
    """Where it runs; most files write `type = "subprocess"`."""

    model: str | None = None
    """Model other than the policy, for a fixed opponent."""

    client: AgentClient | None = None
    """Endpoint of that model."""

    sampling: JudgeSampling | None = None
    """How it generates; unset = as the source says."""

    max_turns: int | None = None
    """Turns until the rollout ends; unset = no limit."""

    max_input_tokens: int | None = None
    """Tokens read until the rollout ends; unset = no limit."""

    max_output_tokens: int | None = None
    """Tokens generated until the rollout ends; unset = no limit."""

    max_total_tokens: int | None = None
    """Tokens in all until the rollout ends; unset = no limit."""

    timeout: AgentTimeout = AgentTimeout()
    """Time limits."""

    retries: Retry = Retry()
    """What is tried again."""


class Seat(Agent):
    """A seat that a multi-agent taskset names; its package may add keys."""

    model_config = ConfigDict(extra="allow")


class Env(OpenBlock):
    """`env` of a training or eval source."""

    # pydantic reads the type of further keys from here: seats, and the package's own settings
    __pydantic_extra__: dict[str, Seat | bool | int | float | str | list[Any] | None] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        init=False
    )

    default_types = {"interception": "elastic"}

    id: str = ""
    """Environment package, where it is not the taskset's default one."""

    taskset: Taskset = Taskset()
    """The tasks."""

    timeout: EnvTimeout = EnvTimeout()
    """Time limits of an episode."""

    retries: Retry = Retry()
    """What is tried again."""

    max_concurrent_agents: Count | None = 1
    """Agents of one episode at work at once; "None" = no limit."""

    interception: Interception = ElasticInterception()
    """Servers that pass agents' requests on to the policy."""

    agent: Agent = Agent()
    """The one seat of a single-agent environment."""

    @model_validator(mode="before")
    @classmethod
    def refuse_keys_of_a_seat(cls, data: object) -> object:
        """Refuse what belongs one level lower, before it is read as a seat."""
        found = [key for key in MISPLACED_IN_ENV if isinstance(data, dict) and key in data]
        if found:
            raise ValueError(
                f"{found[0]} belongs to a seat: write env.agent.{found[0]}, "
                f"or env.<seat>.{found[0]} in a multi-agent environment"
            )
        return data

    @property
    def seats(self) -> dict[str, Agent]:
        """Return the agents by seat name."""
        further = (self.__pydantic_extra__ or {}).items()
        named: dict[str, Agent] = {key: seat for key, seat in further if isinstance(seat, Seat)}
        is_single = not named or "agent" in self.model_fields_set
        return {"agent": self.agent, **named} if is_single else named

    @model_serializer(mode="wrap")
    def leave_out_unused_seat(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Dump `agent` only where it is a seat."""
        dumped: dict[str, Any] = handler(self)
        if "agent" not in self.seats:
            dumped.pop("agent", None)
        return dumped
