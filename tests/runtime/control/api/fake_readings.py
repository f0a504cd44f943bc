"""Scripted readings and a scripted catalog for tests of the API, the same for every run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from runtime.control.readings import (
    CachedModel,
    Checkpoint,
    Component,
    Distribution,
    GpuAvailability,
    LogPage,
    Progress,
    SamplePage,
    TokenCount,
    Usage,
)
from runtime.control.requests import LogQuery, StepRange
from runtime.control.values import StoredRun, User
from runtime.errors import NotFoundError

NOON = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
LOG_TEXT = (
    '{"timestamp":"2026-11-29T12:00:01.123Z","level":"INFO","message":"Step 1 | reward 0.5"}\n'
    "plain [line] \ud800 end\n"
)


USED = Usage(
    training=TokenCount(input_tokens=1000, output_tokens=200),
    inference=TokenCount(input_tokens=30, output_tokens=4),
    gpu_microseconds=2 * 3600 * 1_000_000,
    cost_microusd=5_000_001,
    num_intervals=2,
)
"""An hour on two GPUs."""


@dataclass(kw_only=True)
class FakeReads:
    """Gives every run the same readings."""

    log_page: LogPage = field(default_factory=lambda: LogPage(text=LOG_TEXT))
    log_queries: list[LogQuery] = field(default_factory=list)
    step_ranges: list[StepRange] = field(default_factory=list)
    used: Usage = USED

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Return the scripted page."""
        self.log_queries.append(query)
        if query.env_name not in (None, "reverse-text"):
            raise NotFoundError(f"no env server {query.env_name}")
        return self.log_page

    def metrics(self, run: StoredRun, steps: StepRange) -> list[Mapping[str, JsonValue]]:
        """Return a row whose loss is NaN, as losses are."""
        self.step_ranges.append(steps)
        return [{"step": 1, "reward/mean": 0.5, "loss": float("nan"), "note": "half \ud800"}]

    def samples(self, run: StoredRun, *, step: int, offset: int, limit: int) -> SamplePage:
        """Return one rollout."""
        sample: Mapping[str, JsonValue] = {"prompt": "p", "completion": "c", "reward": 1.0}
        return SamplePage(samples=[sample], total=201)

    def progress(self, run: StoredRun) -> Progress:
        """Return step 3."""
        return Progress(
            latest_step=3,
            steps_with_samples=(1, 2),
            steps_with_distributions=(1,),
            updated_at=NOON,
        )

    def distribution(self, run: StoredRun, *, kind: str | None, step: int | None) -> Distribution:
        """Return one bin."""
        return Distribution(bins=[{"bin": 0.5, "count": 3, "kind": kind}], step=step or 3)

    def checkpoints(self, run: StoredRun) -> tuple[Checkpoint, ...]:
        """Return two."""
        return tuple(
            Checkpoint(
                checkpoint_id=f"ck{step}",
                step=step,
                storage_url=f"file:///runs/{run.run_id}/checkpoints/step_{step}",
                status=status,
                created_at=NOON,
                size_bytes=1024,
            )
            for step, status in ((10, "READY"), (20, "PENDING"))
        )

    def components(self, run: StoredRun) -> tuple[Component, ...]:
        """Return a trainer and two env servers of one name."""
        trainer = Component(
            name="trainer-0", role="trainer", pod_name="trainer-0", status="Running"
        )
        servers = tuple(
            Component(
                name=f"env-train-{index}",
                role="env",
                pod_name=f"p{index}",
                status="Running",
                env_name="reverse-text",
                env_index=index,
            )
            for index in range(2)
        )
        return (trainer, *servers)

    def usage(self, run: StoredRun) -> Usage:
        """Return the scripted usage."""
        return self.used


class FakeCatalog:
    """Offers one model on two clusters and two GPU types."""

    def models(self, user: User, team_id: str | None) -> tuple[CachedModel, ...]:
        """Return the model."""
        return tuple(
            CachedModel(name="Qwen/Qwen3-0.6B", cluster=cluster, gpu_type=gpu_type)
            for cluster, gpu_type in (("east", "H200_141GB"), ("west", "H100_80GB"))
        )

    def gpus(self, user: User, team_id: str | None) -> tuple[GpuAvailability, ...]:
        """Return the GPU types."""
        return (
            GpuAvailability(
                gpu_type="H200_141GB", price_microusd_per_hour=3_490_000, is_available=True
            ),
            GpuAvailability(
                gpu_type="H100_80GB", price_microusd_per_hour=2_490_000, is_available=False
            ),
        )
