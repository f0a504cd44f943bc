"""What a run has measured: metrics, rollouts, progress, distributions, checkpoints, usage."""

from typing import Annotated

from fastapi import APIRouter, Query

from runtime.control.auth import RunDep, ServicesDep
from runtime.control.requests import StepRange
from runtime.control.wire.model import MAX_INTEGER, PageSize, Text
from runtime.control.wire.monitoring import (
    CheckpointList,
    DistributionView,
    MetricList,
    ProgressView,
    SampleList,
    UsageView,
)

router = APIRouter(tags=["monitoring"])

Step = Annotated[int, Query(ge=0, le=MAX_INTEGER)]
Limit = Annotated[PageSize, Query()]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
RowLimit = Annotated[int, Query(ge=1, le=1_000_000)]


@router.get("/rft/runs/{run_id}/metrics")
def metrics(
    run: RunDep,
    services: ServicesDep,
    min_step: Step | None = None,
    max_step: Step | None = None,
    limit: RowLimit | None = None,
) -> MetricList:
    """Return rows of metrics, oldest first; with a limit, the last ones."""
    steps = StepRange(first=min_step, last=max_step, limit=limit)
    return MetricList.of(services.reads.metrics(run, steps))


@router.get("/rft/runs/{run_id}/samples")
def samples(
    run: RunDep, services: ServicesDep, step: Step, page: Page = 1, limit: Limit = 100
) -> SampleList:
    """Return rollouts of a step."""
    offset = (page - 1) * limit
    found = services.reads.samples(run, step=step, offset=offset, limit=limit)
    return SampleList.of(run, found, page=page, limit=limit)


@router.get("/rft/runs/{run_id}/progress")
def progress(run: RunDep, services: ServicesDep) -> ProgressView:
    """Return how far a run is."""
    return ProgressView.of(services.reads.progress(run))


@router.get("/rft/runs/{run_id}/distributions")
def distributions(
    run: RunDep,
    services: ServicesDep,
    kind: Annotated[Text | None, Query(alias="type")] = None,
    step: Step | None = None,
) -> DistributionView:
    """Return a histogram of rewards, or of another kind."""
    return DistributionView.of(services.reads.distribution(run, kind=kind, step=step))


@router.get("/rft/runs/{run_id}/checkpoints")
def checkpoints(
    run: RunDep, services: ServicesDep, status_filter: Annotated[Text | None, Query()] = None
) -> CheckpointList:
    """List checkpoints."""
    return CheckpointList.of(run, services.reads.checkpoints(run), status=status_filter)


@router.get("/billing/runs/{run_id}/usage")
def usage(run: RunDep, services: ServicesDep) -> UsageView:
    """Return what a run has used and cost."""
    return UsageView.of(run, services.reads.usage(run))
