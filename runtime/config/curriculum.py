"""`[orchestrator.train.source.curriculum]`: which tasks are drawn, and which groups may train."""

from typing import Annotated, Literal

from pydantic import Field

from runtime.config.block import Block, NonNegative


class StandardSampler(Block):
    """Tasks in the order of the taskset, again and again."""

    type: Literal["standard"] = "standard"
    """Picks this variant."""


class DifficultyPool(Block):
    """Tasks whose mean reward lies below one threshold and above the next lower."""

    threshold: float
    """Highest mean reward that still belongs here; no two pools share one."""

    weight: NonNegative
    """Share of draws relative to the other pools; 0 = never."""


class DifficultyPoolSampler(Block):
    """Tasks drawn by how well the policy does on them."""

    type: Literal["difficulty_pool"] = "difficulty_pool"
    """Picks this variant."""

    pools: dict[str, DifficultyPool] = {
        "hard": DifficultyPool(threshold=0.25, weight=0.2),
        "normal": DifficultyPool(threshold=0.75, weight=1.0),
        "easy": DifficultyPool(threshold=1.0, weight=0.2),
    }
    """Pools by name; at least one with a weight above 0."""

    seed: int = 42
    """Seed of the draws."""


class AdvantageRangeGate(Block):
    """Keeps groups out of training whose advantages all lie in a range."""

    type: Literal["advantage_range"] = "advantage_range"
    """The only kind."""

    reject_min: float = 0.0
    """Lower end of the rejected range, inclusive."""

    reject_max: float = 0.0
    """Upper end, inclusive; not below `reject_min`."""


class Curriculum(Block):
    """Sampler and gates of one training source."""

    sampler: Annotated[StandardSampler | DifficultyPoolSampler, Field(discriminator="type")] = (
        StandardSampler()
    )
    """Which task comes next."""

    gates: dict[str, AdvantageRangeGate] = {}
    """Named gates; a group trains when all let it pass."""
