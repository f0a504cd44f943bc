"""What the HTTP API is answered with, as frozen values: identities, pages, what a run has written.

Given by `runtime.control.services`, turned into JSON by `runtime.control.wire`. Nothing here knows
HTTP.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from runtime.control.values import ApiKey, Team, User


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who an API key stands for; `team_id` is the key's own team, if it has one."""

    user: User
    key: ApiKey
    teams: tuple[Team, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPage:
    """The last lines that a query matches, oldest first; `has_started`: it wrote any."""

    text: str
    has_started: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplePage:
    """Rollouts of a step, as the run wrote them, and how many the step has."""

    samples: Sequence[Mapping[str, JsonValue]]
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run is, and for which steps there is more to read."""

    latest_step: int | None = None
    steps_with_samples: tuple[int, ...] = ()
    steps_with_distributions: tuple[int, ...] = ()
    updated_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """A histogram of one step; a bin is a mapping such as {"bin": 0.5, "count": 3}."""

    bins: Sequence[Mapping[str, JsonValue]]
    step: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint of a run; `status` is READY, PENDING, UPLOADING or FAILED."""

    checkpoint_id: str
    step: int
    storage_url: str
    status: str
    created_at: datetime
    size_bytes: int | None = None
    uploaded_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """A pod or process of a run; `env_name` and `env_index` only of an env server."""

    name: str
    role: str
    pod_name: str
    status: str
    env_name: str | None = None
    env_index: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenCount:
    """Tokens that one side of a run has worked on; None where the run does not say how many."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_microusd: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a run has used and cost so far; the cost is of GPU time, exact in micro-dollars."""

    training: TokenCount = TokenCount()
    inference: TokenCount = TokenCount()
    gpu_microseconds: int = 0
    cost_microusd: int = 0
    num_intervals: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedModel:
    """A model that starts warm on a cluster."""

    name: str
    cluster: str
    gpu_type: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuAvailability:
    """A GPU type that can be had, its price, and whether one is free now."""

    gpu_type: str
    price_microusd_per_hour: int
    is_available: bool
