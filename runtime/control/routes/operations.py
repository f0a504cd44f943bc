"""For operators, without a key and without anything of a user: liveness, readiness, metrics."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runtime.control.auth import ServicesDep
from runtime.control.services import Runs
from runtime.states import RunState

router = APIRouter(include_in_schema=False)


class RunCollector(Collector):
    """Reads the number of runs by state at each scrape."""

    def __init__(self, runs: Runs) -> None:
        """Keep where runs are counted."""
        self._runs = runs

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing, so that registering does not count runs."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one number a state."""
        family = GaugeMetricFamily("paddock_runs", "Runs by state", labels=["state"])
        counts = self._runs.num_by_state()
        for state in RunState:
            family.add_metric([state], counts.get(state, 0))
        yield family


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers, on its loop: its threads may all wait for something."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(services: ServicesDep, response: Response) -> dict[str, object]:
    """Say whether the control plane can work, and what is wrong."""
    problems = services.health.problems()
    response.status_code = 503 if problems else 200
    return {"status": "unready" if problems else "ready", "problems": problems}


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Return Prometheus' text."""
    registry: CollectorRegistry = request.app.state.metrics
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
