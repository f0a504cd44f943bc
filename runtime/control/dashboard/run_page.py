"""What the page of a run shows, gathered from the services of the API.

A part that cannot be read (a cluster that does not answer) says so in its place; the rest is shown.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from runtime.control.auth import ApiState
from runtime.control.dashboard.curve import Curve, reward_curve
from runtime.control.dashboard.wording import log_lines, span
from runtime.control.errors_http import detail_of
from runtime.control.notices import newest_notice
from runtime.control.planned_price import planned_usd_per_hour
from runtime.control.readings import Component, Progress, Usage
from runtime.control.requests import LogQuery, StepRange
from runtime.control.values import MICROUSD_PER_USD, Event, StoredRun
from runtime.errors import NotFoundError, PaddockError
from runtime.states import RunState

NUM_LOG_LINES = 40
_MAX_EVENTS = 200
_MAX_ROWS = 50_000
_HIDDEN = frozenset({"pause"})
"""Events that the reconciler writes for itself."""

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part(Generic[T]):
    """A part of the page: what was read, or why nothing was."""

    value: T | None = None
    trouble: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """A line of the run's history; `lasted` says how long a state did."""

    event: Event
    lasted: str = ""

    @property
    def what(self) -> str:
        """Return the event's kind, in words."""
        return self.event.kind.replace("-", ": ")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Everything on the page of a run."""

    run: StoredRun
    num_ahead: int | None
    notice: str
    history: tuple[Moment, ...]
    components: Part[Sequence[Component]]
    progress: Part[Progress]
    curve: Part[Curve]
    logs: Part[Sequence[str]]
    usage: Part[Usage]
    price_microusd_per_hour: int | None
    took: str

    @property
    def is_stoppable(self) -> bool:
        """Tell whether the page has a stop button."""
        return not self.run.is_over

    @property
    def gpu_hours(self) -> str:
        """Return the GPU hours used."""
        used = self.usage.value.gpu_microseconds if self.usage.value is not None else 0
        return f"{used / 3_600_000_000:,.2f}"


def read_page(state: ApiState, run: StoredRun, *, user_id: str) -> RunPage:
    """Read what the page of a run shows."""
    reads, runs = state.services.reads, state.services.runs
    events = runs.events(run)
    now = datetime.now(UTC)

    def logs() -> list[str]:
        state.logs_limit.take(user_id)
        try:
            return log_lines(reads.logs(run, LogQuery(num_lines=NUM_LOG_LINES)).text)
        except NotFoundError:
            return []

    return RunPage(
        run=run,
        num_ahead=runs.num_ahead(run),
        notice=newest_notice(run, events),
        history=_history(run, events, now),
        components=_part(run, lambda: reads.components(run)),
        progress=_part(run, lambda: reads.progress(run)),
        curve=_part(run, lambda: reward_curve(reads.metrics(run, StepRange(limit=_MAX_ROWS)))),
        logs=_part(run, logs),
        usage=_part(run, lambda: reads.usage(run)),
        price_microusd_per_hour=_price(run),
        took=span(run.started_at, run.ended_at or now),
    )


def _part(run: StoredRun, read: Callable[[], T | None]) -> Part[T]:
    try:
        return Part(value=read())
    except PaddockError as error:
        what, run_id = "%s: a part of its page: %s", run.run_id
        _LOG.warning(what, run_id, error, extra={"run": run_id})
        detail = detail_of(error)
        return Part(trouble=detail if isinstance(detail, str) else str(error))


def _history(run: StoredRun, events: Sequence[Event], now: datetime) -> tuple[Moment, ...]:
    shown = [event for event in events if event.kind not in _HIDDEN]
    states = [event for event in shown if event.state is not None]
    follows = {one.event_id: after.time for one, after in itertools.pairwise(states)}
    if states and not run.is_over:
        follows[states[-1].event_id] = now
    moments = [
        Moment(event=event, lasted=span(event.time, follows.get(event.event_id))) for event in shown
    ]
    return tuple(moments[-_MAX_EVENTS:])


def _price(run: StoredRun) -> int | None:
    """Return the price of an hour as it was planned, in micro-dollars."""
    price = planned_usd_per_hour(run)
    return round(price * MICROUSD_PER_USD) if price is not None else None


def queue_words(num_ahead: int | None) -> str:
    """Return where a queued run stands."""
    if num_ahead is None:
        return ""
    if num_ahead == 0:
        return "next in the queue"
    return f"{num_ahead} run{'s' if num_ahead > 1 else ''} ahead in the queue"


def refreshes(state: RunState, *, is_over: bool) -> int | None:
    """Return after how many seconds the page loads itself again, None for a run that is over."""
    if is_over:
        return None
    return 30 if state is RunState.PAUSED else 15
