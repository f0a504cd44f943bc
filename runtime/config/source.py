"""`[orchestrator.train]` and `[orchestrator.eval]`: what is trained and evaluated on."""

from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.config.algo import AlgoConfig
from runtime.config.block import Block, Count, NonNegative
from runtime.config.curriculum import Curriculum
from runtime.config.env import Env

MAX_SOURCES = 500  # each is an env server of its own
Temperature = Annotated[float, Field(ge=0, le=2.0)]


class StaticPool(Block):
    """A fixed number of worker processes."""

    type: Literal["static"] = "static"
    """Picks this variant."""

    num_workers: Count = 4
    """Worker processes of the env server."""


class ElasticPool(Block):
    """Worker processes as they are needed."""

    type: Literal["elastic"] = "elastic"
    """Picks this variant; may be left out only with the whole table."""

    max_workers: Count | None = None
    """Most worker processes; unset = as many as there are CPUs."""

    multiplex: Count = 128
    """Episodes a worker."""


class Serve(Block):
    """How the source's env server runs."""

    pool: Annotated[StaticPool | ElasticPool, Field(discriminator="type")] = ElasticPool()
    """Its worker processes."""

    address: str | None = None
    """Address of an env server elsewhere (tcp://host:port); unset = paddock starts one."""

    max_concurrent: Count | None = None
    """Episodes at once; unset = no limit."""


class TrainSampling(Block):
    """How the policy generates in training: no more keys than these, others go to `extra_body`."""

    temperature: Temperature = 1.0
    """Temperature; the loss assumes the one used here."""

    max_completion_tokens: Count | None = None
    """Tokens a turn; unset = until the end token or the context's end."""

    extra_body: dict[str, Any] = {}  # vLLM's own sampling keys
    """Further keys of a request. Policy-sampled sources get top_k = -1, min_p = 0 and
    return_token_ids = true."""


class EvalSampling(Block):
    """How the policy generates in evals; unset = the server's default."""

    temperature: Temperature | None = None
    """Temperature."""

    top_p: float | None = None
    """Nucleus."""

    top_k: int | None = None
    """Most likely tokens to draw from."""

    min_p: NonNegative | None = None
    """Least probability relative to the likeliest token's."""

    max_completion_tokens: Count | None = None
    """Tokens a turn."""

    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    """How much the model thinks."""

    extra_body: dict[str, Any] = {}  # vLLM's own sampling keys
    """Further keys of a request."""


class Source(Block):
    """What training and eval sources share: an environment and its server."""

    env: Env = Env()
    """The environment; `env.taskset.id` must be written."""

    serve: Serve = Serve()
    """Its server."""

    name: str | None = None
    """Name in logs, metrics and file names; unset = the environment's id."""

    ratio: Annotated[float, Field(gt=0)] = 1.0
    """Share of episodes relative to the other sources."""

    @property
    def taskset_id(self) -> str:
        """Return the id of the taskset, "" where the environment package brings its own."""
        return self.env.taskset.id

    @property
    def env_id(self) -> str:
        """Return the id of the environment package, else of the taskset."""
        return self.env.id or self.env.taskset.id

    @property
    def resolved_name(self) -> str:
        """Return the name that the source goes by."""
        return self.name or self.env_id


class TrainSource(Source):
    """One entry of `[[orchestrator.train.source]]`."""

    sampling: TrainSampling = TrainSampling()
    """Sampling of this source, key by key over `orchestrator.train.sampling`."""

    group_size: Count = 1
    """Rollouts a task; unset = `orchestrator.group_size`. Need not divide the batch."""

    algo: AlgoConfig | None = None
    """Algorithm of this source; unset = `orchestrator.algo`."""

    curriculum: Curriculum | None = None
    """Which tasks are drawn and which groups train; unset = all in turn."""


class EvalSource(Source):
    """One entry of `[[orchestrator.eval.source]]`."""

    sampling: EvalSampling = EvalSampling()
    """Sampling of this source, key by key over `orchestrator.eval.sampling`."""

    num_examples: int = -1
    """Tasks to evaluate on; -1 = all. Unset = `orchestrator.eval.num_examples`."""

    group_size: Count = 1
    """Rollouts a task, for pass@k. Unset = `orchestrator.eval.group_size`."""

    interval: Count = 100
    """Steps between evals. Unset = `orchestrator.eval.interval`."""


class Train(Block):
    """`[orchestrator.train]`."""

    source: Annotated[list[TrainSource], Field(max_length=MAX_SOURCES)] = []
    """The training sources; at least one unless the trainer's data is fake."""

    sampling: TrainSampling = TrainSampling()
    """Sampling of all sources."""

    filter_zero_advantages: bool = True
    """Leave samples without advantage out of the batch: they teach nothing."""


class Eval(Block):
    """`[orchestrator.eval]`; presence turns evals on, then at least one source is needed."""

    source: Annotated[list[EvalSource], Field(max_length=MAX_SOURCES)] = []
    """The eval sources."""

    sampling: EvalSampling = EvalSampling()
    """Sampling of all eval sources."""

    num_examples: int = -1
    """Tasks a source; -1 = all."""

    group_size: Count = 1
    """Rollouts a task, for pass@k."""

    interval: Count = 100
    """Steps between evals."""

    skip_first_step: bool = False
    """No eval of the untrained model."""

    retrigger_on_resume: bool = False
    """Evaluate again at the step that a run resumes from."""
