"""What a run has written, on the wire: logs, components, metrics, rollouts, checkpoints, usage."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, JsonValue

from runtime.control.readings import (
    Checkpoint,
    Component,
    Distribution,
    Progress,
    SamplePage,
    TokenCount,
    Usage,
)
from runtime.control.values import MICROUSD_PER_USD, StoredRun
from runtime.control.wire.model import Answer, SnakeAnswer, Utc
from runtime.control.wire.texts import sound, sound_json, without_markup
from runtime.naming import ENV_SERVER

Row = dict[str, JsonValue]

_MICROSECONDS_PER_HOUR = 3600 * 1_000_000


class ComponentView(SnakeAnswer):
    """A component of any role; paddock's own."""

    name: str
    role: str
    pod_name: str
    status: str


class EnvServerView(SnakeAnswer):
    """An env server; the client shows `name/index` where a name occurs more than once."""

    env_name: str | None
    env_index: int | None
    pod_name: str
    status: str


class ComponentList(SnakeAnswer):
    """The env servers, which the client lists, and all components, which `paddock` lists."""

    env_servers: tuple[EnvServerView, ...]
    components: tuple[ComponentView, ...]

    @classmethod
    def of(cls, components: Sequence[Component]) -> "ComponentList":
        """Return the answer."""
        return cls(
            env_servers=tuple(
                EnvServerView(
                    env_name=without_markup(part.env_name) if part.env_name else None,
                    env_index=part.env_index,
                    pod_name=part.pod_name,
                    status=part.status,
                )
                for part in components
                if part.role == ENV_SERVER
            ),
            components=tuple(
                ComponentView(
                    name=part.name, role=part.role, pod_name=part.pod_name, status=part.status
                )
                for part in components
            ),
        )


class MetricList(SnakeAnswer):
    """Rows of metrics, as the run wrote them."""

    metrics: tuple[Row, ...]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, JsonValue]]) -> "MetricList":
        """Return the answer; NaN becomes null, which JSON can say."""
        return cls(metrics=_rows(rows))


class SampleList(SnakeAnswer):
    """Rollouts of one step."""

    run_id: str
    samples: tuple[Row, ...]
    total: int
    page: int
    limit: int
    total_pages: int

    @classmethod
    def of(cls, run: StoredRun, found: SamplePage, *, page: int, limit: int) -> "SampleList":
        """Return the answer for a page that starts at 1."""
        return cls(
            run_id=run.run_id,
            samples=_rows(found.samples),
            total=found.total,
            page=page,
            limit=limit,
            total_pages=-(-found.total // limit),
        )


class ProgressView(Answer):
    """How far a run is."""

    latest_step: int | None
    steps_with_samples: tuple[int, ...]
    steps_with_distributions: tuple[int, ...]
    last_updated_at: Utc | None

    @classmethod
    def of(cls, progress: Progress) -> "ProgressView":
        """Return the answer."""
        return cls(
            latest_step=progress.latest_step,
            steps_with_samples=progress.steps_with_samples,
            steps_with_distributions=progress.steps_with_distributions,
            last_updated_at=progress.updated_at,
        )


class DistributionView(Answer):
    """A histogram."""

    bins: tuple[Row, ...]
    step: int | None

    @classmethod
    def of(cls, found: Distribution) -> "DistributionView":
        """Return the answer."""
        return cls(bins=_rows(found.bins), step=found.step)


class CheckpointView(Answer):
    """A checkpoint."""

    id: str
    rft_run_id: str
    step: int
    storage_url: str
    status: str
    created_at: Utc
    size_bytes: int | None
    uploaded_at: Utc | None


class CheckpointList(Answer):
    """The checkpoints of a run."""

    checkpoints: tuple[CheckpointView, ...]

    @classmethod
    def of(
        cls, run: StoredRun, checkpoints: Sequence[Checkpoint], *, status: str | None
    ) -> "CheckpointList":
        """Return those of a status, in any case; None = all."""
        wanted = status.upper() if status else None
        return cls(
            checkpoints=tuple(
                CheckpointView(
                    id=found.checkpoint_id,
                    rft_run_id=run.run_id,
                    step=found.step,
                    storage_url=found.storage_url,
                    status=found.status,
                    created_at=found.created_at,
                    size_bytes=found.size_bytes,
                    uploaded_at=found.uploaded_at,
                )
                for found in checkpoints
                if wanted in (None, found.status)
            )
        )


def _is_unknown(value: int | None) -> bool:
    return value is None


Known = Annotated[int | None, Field(default=None, exclude_if=_is_unknown)]
"""A count that is left out where it is not known: the client takes no null there."""


class TokenView(SnakeAnswer):
    """Tokens of one side of a run, and what they cost where tokens are billed."""

    tokens: Known
    input_tokens: Known
    output_tokens: Known
    cost_usd: float

    @classmethod
    def of(cls, count: TokenCount) -> "TokenView":
        """Return the view."""
        known = [n for n in (count.input_tokens, count.output_tokens) if n is not None]
        return cls(
            tokens=sum(known) if known else None,
            input_tokens=count.input_tokens,
            output_tokens=count.output_tokens,
            cost_usd=count.cost_microusd / MICROUSD_PER_USD,
        )


class TokenPrices(SnakeAnswer):
    """Prices per million tokens: none, since GPU hours are billed."""

    training_per_mtok: float | None = None
    inference_input_per_mtok: float | None = None
    inference_output_per_mtok: float | None = None


class UsageView(SnakeAnswer):
    """What a run has used; the last two fields are paddock's own, the integer is exact."""

    run_id: str
    run_name: str
    base_model: str
    status: str
    training: TokenView
    inference: TokenView
    total_tokens: Known
    total_cost_usd: float
    pricing: TokenPrices = TokenPrices()
    record_count: int
    gpu_hours: float
    total_cost_microusd: int

    @classmethod
    def of(cls, run: StoredRun, usage: Usage) -> "UsageView":
        """Return the answer."""
        training, inference = TokenView.of(usage.training), TokenView.of(usage.inference)
        sides = [n for n in (training.tokens, inference.tokens) if n is not None]
        return cls(
            run_id=run.run_id,
            run_name=sound(run.name),
            base_model=sound(run.model),
            status=run.state,
            training=training,
            inference=inference,
            total_tokens=sum(sides) if len(sides) == 2 else None,
            total_cost_usd=usage.cost_microusd / MICROUSD_PER_USD,
            record_count=usage.num_intervals,
            gpu_hours=usage.gpu_microseconds / _MICROSECONDS_PER_HOUR,
            total_cost_microusd=usage.cost_microusd,
        )


def _rows(rows: Sequence[Mapping[str, JsonValue]]) -> tuple[Row, ...]:
    found = []
    for row in rows:
        clean = sound_json(dict(row))
        assert isinstance(clean, dict), "a mapping stays one"
        found.append(clean)
    return tuple(found)
