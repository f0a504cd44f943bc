"""A run on the wire, and lists of runs."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from runtime.control.store.run_lists import RunPage
from runtime.control.values import StoredRun
from runtime.control.wire.model import Answer, PageSize, SnakeAnswer, Text, Utc
from runtime.control.wire.run_facts import run_facts
from runtime.control.wire.texts import sound, without_markup
from runtime.states import RunState, Teardown

KIND = "DEDICATED_FULL_FT"
"""The client's word for a run with pods of its own; `logs --env` depends on it."""

_VOLUME = "volume"


class RunListParams(BaseModel):
    """The query of a list: a page, of a team or of the caller alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    limit: PageSize = 20
    team_id: Text | None = None
    mine: bool = False


class EnvironmentName(Answer):
    """An environment; the client wants an object and shows its name."""

    name: str


class FailureAnalysis(Answer):
    """Why a run failed, as the wrapper and the observer saw it."""

    root_cause: str
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0


class RunView(Answer):
    """A run as the client reads it; the last five fields are paddock's own."""

    id: str
    user_id: str
    team_id: str | None
    name: str | None
    kind: str = KIND
    loss: str = "rl"
    status: str
    prime_cluster_id: str | None
    base_model: str | None
    environments: tuple[EnvironmentName, ...]
    max_steps: int | None
    seq_len: int | None
    max_tokens: int | None
    batch_size: int | None
    rollouts_per_example: int | None
    learning_rate: float | None
    max_inflight_rollouts: int | None
    gpu_count: int | None
    volume_name: str | None
    wandb_entity: str | None
    wandb_project: str | None
    wandb_run_name: str | None
    runs_ahead: int | None
    queue_reason: str | None
    notice: str | None
    error_message: str | None
    failure_analysis: FailureAnalysis | None
    created_at: Utc
    updated_at: Utc
    started_at: Utc | None
    completed_at: Utc | None
    reason: str
    attempt: int
    teardown: str
    capture: str
    is_adopted: bool

    @classmethod
    def of(
        cls,
        run: StoredRun,
        volume_names: Mapping[str, str],
        *,
        num_ahead: int | None = None,
        notice: str = "",
    ) -> "RunView":
        """Return the view of a run; `num_ahead` and `notice` where somebody looks at it alone."""
        facts = run_facts(run.config_text)
        reason = without_markup(run.reason)
        has_failed = run.state is RunState.FAILED
        return cls(
            id=run.run_id,
            user_id=run.user_id,
            team_id=run.team_id,
            name=sound(run.name),
            status=run.state,
            prime_cluster_id=_printed(run.cluster),
            base_model=without_markup(run.model),
            environments=tuple(
                EnvironmentName(name=without_markup(name)) for name in run.environments
            ),
            max_steps=run.max_steps,
            seq_len=facts.seq_len,
            max_tokens=facts.max_tokens,
            batch_size=facts.batch_size,
            rollouts_per_example=facts.group_size,
            learning_rate=facts.learning_rate,
            max_inflight_rollouts=facts.max_inflight,
            gpu_count=run.num_gpus,
            volume_name=volume_names.get(str(run.settings.get(_VOLUME))),
            wandb_entity=_printed(facts.wandb_entity),
            wandb_project=_printed(facts.wandb_project),
            wandb_run_name=facts.wandb_name,
            runs_ahead=num_ahead,
            queue_reason=reason if run.state is RunState.QUEUED and reason else None,
            notice=_notice(run) or without_markup(notice) or None,
            error_message=(reason or "no reason was recorded") if has_failed else None,
            failure_analysis=_analysis(run) if has_failed else None,
            created_at=run.created_at,
            updated_at=run.updated_at,
            started_at=run.started_at,
            completed_at=run.ended_at,
            reason=reason,
            attempt=run.attempt,
            teardown=run.teardown,
            capture=run.capture,
            is_adopted=run.is_adopted,
        )


class RunAnswer(Answer):
    """One run."""

    run: RunView


class RunList(SnakeAnswer):
    """One page of runs; without `total` the client would page by itself."""

    runs: tuple[RunView, ...]
    total: int
    page: int
    limit: int
    total_pages: int

    @classmethod
    def of(
        cls, found: RunPage, volume_names: Mapping[str, str], *, page: int, limit: int
    ) -> "RunList":
        """Return the answer for a page that starts at 1."""
        return cls(
            runs=tuple(RunView.of(run, volume_names) for run in found.runs),
            total=found.total,
            page=page,
            limit=limit,
            total_pages=-(-found.total // limit),
        )


def _printed(text: str | None) -> str | None:
    return without_markup(text) if text is not None else None


def _notice(run: StoredRun) -> str | None:
    if run.teardown in {Teardown.STUCK, Teardown.UNREACHABLE}:
        return f"its resources are not gone yet: teardown is {run.teardown}"
    return None


def _analysis(run: StoredRun) -> FailureAnalysis | None:
    details = run.exit_details
    if details is None:
        return None
    how = f"exit code {details.exit_code}"
    if details.signal is not None:
        how = f"signal {details.signal}"
    elif details.exit_code is None:
        how = "no exit code"
    return FailureAnalysis(
        root_cause=f"{details.component} ended with {how}",
        evidence=tuple(map(sound, details.last_lines)),
    )
