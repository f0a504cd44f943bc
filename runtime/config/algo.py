"""`[orchestrator.algo]` and a source's own `algo`: how rewards become a training signal."""

from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.config.block import Block
from runtime.config.client import FrozenModel
from runtime.config.renderer import AutoRenderer, Renderer

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AlgoSampling(Block):
    """Who generates the rollouts."""

    source: Literal["policy"] | FrozenModel = "policy"
    """The model in training, or (sft only) a frozen one with `name` and `base_url`."""


class LinearLengthPenalty(Block):
    """Advantage taken off in proportion to a rollout's length within its group."""

    type: Literal["linear"] = "linear"
    """The only kind."""

    num_output_tokens_weight: Weight = 0.25
    """Weight of generated tokens."""

    num_input_tokens_weight: Weight = 0.1
    """Weight of tokens read."""

    num_turns_weight: Weight = 0.1
    """Weight of turns."""


class Algo(Block):
    """What all algorithms share."""

    sampling: AlgoSampling = AlgoSampling()
    """Who generates the rollouts."""


class GRPO(Algo):
    """Advantage = reward minus the group's mean; the default."""

    type: Literal["grpo"] = "grpo"
    """Picks this variant; may be left out at `orchestrator.algo`."""

    length_penalty: LinearLengthPenalty | None = None
    """Presence punishes length."""


class EchoRole(Block):
    """Cross entropy on one role's tokens."""

    alpha: Annotated[float, Field(gt=0)] = 0.1
    """Weight of that loss."""


class EchoRoles(Block):
    """Roles whose tokens are learnt besides the policy's own; at least one."""

    system: EchoRole | None = None
    """System messages."""

    user: EchoRole | None = None
    """User messages."""

    assistant: EchoRole | None = None
    """Assistant messages."""

    tool: EchoRole | None = None
    """Tool results; the one role that is on when the table is not written."""


class EchoFilter(Block):
    """A function of the user's that narrows the tokens."""

    import_path: str
    """Dotted path of the function; imported by the orchestrator, never by paddock."""

    kwargs: dict[str, Any] = {}  # handed to the user's function as they are
    """Keyword arguments for it."""


class Echo(Algo):
    """GRPO plus cross entropy on what the environment said."""

    type: Literal["echo"] = "echo"
    """Picks this variant."""

    length_penalty: LinearLengthPenalty | None = None
    """Presence punishes length."""

    roles: EchoRoles = EchoRoles(tool=EchoRole())
    """Whose tokens are learnt; writing the table replaces the default."""

    filter: EchoFilter | None = None
    """Narrows them."""


class MaxRL(Algo):
    """Advantage normalised by the group's mean reward."""

    type: Literal["max_rl"] = "max_rl"
    """Picks this variant."""


class RAE(Algo):
    """Running baseline for each role of a self-play game."""

    type: Literal["rae"] = "rae"
    """Picks this variant."""

    decay: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Memory of the baseline, per step."""


class HierarchicalGRPO(Algo):
    """Groups within groups: proposals, and solutions to each."""

    type: Literal["hierarchical_grpo"] = "hierarchical_grpo"
    """Picks this variant; its package must be in the image."""

    episode_agents: Annotated[list[str], Field(min_length=1)]
    """Seats whose rollouts form the outer group."""


class OPD(Algo):
    """On-policy distillation: follow a teacher's probabilities on the policy's own rollouts."""

    type: Literal["opd"] = "opd"
    """Picks this variant."""

    teacher: FrozenModel
    """The teacher, served elsewhere."""


class OPSD(Algo):
    """On-policy self-distillation: the teacher is the policy that sees a demonstration."""

    type: Literal["opsd"] = "opsd"
    """Picks this variant."""

    demo_key: str = "demonstration"
    """Key of the task that holds the demonstration."""

    template: str = (
        "Here is an example of an expert response:\n"
        "<demonstration>\n{demonstration}\n</demonstration>"
    )
    """How it is put before the prompt; `{demonstration}` is replaced."""

    renderer: Renderer = AutoRenderer()
    """Renders the teacher's prompt."""


class SFT(Algo):
    """Cross entropy on a frozen model's rollouts."""

    type: Literal["sft"] = "sft"
    """Picks this variant; needs `sampling.source` to be a frozen model."""


AlgoConfig = Annotated[
    GRPO | Echo | MaxRL | RAE | HierarchicalGRPO | OPD | OPSD | SFT, Field(discriminator="type")
]
