"""RunRecord: what is known of a run, as a value, and every change that may be made to it; pure.

Where a record is kept is `runtime.record` (a file) and `runtime.kubernetes_record` (a ConfigMap);
which state may follow is `runtime.states`; what happened is judged by `runtime.observe`.
"""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from runtime import limits
from runtime.errors import RunStateError
from runtime.states import Capture, RunState, Teardown, is_terminal, may_follow


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class StateChange(_Stored):
    """One transition of a run."""

    state: RunState
    time: AwareDatetime
    reason: str = ""
    attempt: int


class ExitDetails(_Stored):
    """How the component ended that a failure is named after."""

    component: str
    exit_code: int | None = None
    signal: str | None = None
    last_lines: Annotated[tuple[str, ...], Field(max_length=limits.LAST_LOG_LINES)] = ()


class RunRecord(_Stored):
    """What is known of a run; `version` counts its writes."""

    run_id: str
    config_digest: str
    attempt: Annotated[int, Field(ge=1)]
    state: RunState
    reason: str = ""
    times: tuple[StateChange, ...] = ()
    """One entry a transition, those of earlier attempts included."""
    teardown: Teardown = Teardown.NONE
    capture: Capture = Capture.NONE
    exit: ExitDetails | None = None
    warnings: tuple[str, ...] = ()
    """What is wrong with the attempt although it goes on, one entry a kind of warning."""
    version: int = 1

    @property
    def is_over(self) -> bool:
        """Tell whether the current attempt has ended for good."""
        return is_terminal(self.state)

    @property
    def outcome(self) -> RunState | None:
        """Return the terminal state of the attempt, None while it lives."""
        return self.state if self.is_over else None


class RecordConflictError(RunStateError):
    """Somebody else wrote the record between the read and the write."""

    code = "record_conflict"


def parse_record(data: bytes | str, *, source: object) -> RunRecord:
    """Return the record in a JSON text; raises RunStateError when it is damaged."""
    try:
        return RunRecord.model_validate_json(data)
    except ValidationError as error:
        raise RunStateError(
            f"{source}: not a run record ({error.error_count()} problems): "
            "move it away to give up the run's history"
        ) from None


def begun(
    before: RunRecord | None,
    *,
    run_id: str,
    config_digest: str,
    attempt: int,
    preempted: bool = False,
) -> RunRecord:
    """Return the record of a new attempt, QUEUED; the same live attempt is left as it is.

    Raises RunStateError when the record is at a later attempt, over at this one, or still live at
    an earlier one that was not preempted.
    """
    if before is not None:
        check_begin(before, attempt, config_digest=config_digest, preempted=preempted)
        if before.attempt == attempt:
            return before
    change = StateChange(
        state=RunState.QUEUED,
        time=datetime.now(UTC),
        reason="preempted" if preempted else "",
        attempt=attempt,
    )
    return RunRecord(
        run_id=run_id,
        config_digest=config_digest,
        attempt=attempt,
        state=RunState.QUEUED,
        reason=change.reason,
        times=(*(before.times if before else ()), change),
        version=before.version + 1 if before else 1,
    )


def advanced(
    before: RunRecord | None,
    state: RunState,
    *,
    attempt: int,
    reason: str = "",
    exit_details: ExitDetails | None = None,
) -> RunRecord:
    """Return the record after one transition; unchanged when it is in this state already.

    Raises RunStateError when there is no record, it is at another attempt, or the transition is not
    allowed.
    """
    record = _current(before, attempt)
    if record.state is state:
        return record
    if not may_follow(record.state, state):
        raise RunStateError(
            f"{record.run_id}: {state} may not follow {record.state} in attempt {attempt}"
        )
    change = StateChange(state=state, time=datetime.now(UTC), reason=reason, attempt=attempt)
    return record.model_copy(
        update={
            "state": state,
            "reason": reason,
            "times": (*record.times, change),
            "exit": exit_details,
            "version": record.version + 1,
        }
    )


def with_aftermath(
    before: RunRecord | None,
    *,
    attempt: int,
    teardown: Teardown | None = None,
    capture: Capture | None = None,
    expected_version: int | None = None,
) -> RunRecord:
    """Return the record with what became of the run's resources or artifacts.

    Raises RecordConflictError when the record is not at the expected version.
    """
    record = _current(before, attempt)
    if expected_version is not None and record.version != expected_version:
        raise RecordConflictError(
            f"{record.run_id}: the record is at version {record.version}, "
            f"not {expected_version}: read it again"
        )
    return record.model_copy(
        update={
            "teardown": teardown or record.teardown,
            "capture": capture or record.capture,
            "version": record.version + 1,
        }
    )


def with_warning(before: RunRecord | None, warning: str, *, attempt: int) -> RunRecord:
    """Return the record with one more warning; unchanged when it is there already."""
    record = _current(before, attempt)
    if warning in record.warnings:
        return record
    warnings = (*record.warnings, warning)
    return record.model_copy(update={"warnings": warnings, "version": record.version + 1})


def with_reason(before: RunRecord | None, reason: str, *, attempt: int) -> RunRecord:
    """Return the live record with what its state waits for now; unchanged when it says so."""
    record = _current(before, attempt)
    if record.is_over or record.reason == reason:
        return record
    return record.model_copy(update={"reason": reason, "version": record.version + 1})


def preempted(before: RunRecord | None, reason: str, *, attempt: int) -> RunRecord:
    """Return the record of a live attempt that lost its place: QUEUED, as the next attempt.

    Raises RunStateError when the record is over or at another attempt.
    """
    record = _current(before, attempt)
    if record.is_over:
        raise RunStateError(f"{record.run_id}: attempt {attempt} is over, it cannot be preempted")
    change = StateChange(
        state=RunState.QUEUED, time=datetime.now(UTC), reason=reason, attempt=attempt + 1
    )
    return RunRecord(
        run_id=record.run_id,
        config_digest=record.config_digest,
        attempt=change.attempt,
        state=change.state,
        reason=reason,
        times=(*record.times, change),
        version=record.version + 1,
    )


def check_begin(
    before: RunRecord, attempt: int, *, config_digest: str, preempted: bool = False
) -> None:
    """Raise RunStateError, with the fix, when an attempt may not begin or go on after this."""
    check_open(before, attempt)
    if attempt == before.attempt and before.config_digest != config_digest:
        raise RunStateError(
            f"{before.run_id}: attempt {attempt} is live with another config: put the config "
            f"back, or `paddock stop {before.run_id}` and start attempt {attempt + 1}"
        )
    if attempt > before.attempt and not (
        before.is_over or before.state is RunState.PAUSED or preempted
    ):
        raise RunStateError(
            f"{before.run_id}: attempt {before.attempt} is still {before.state}: "
            f"`paddock stop {before.run_id}` before attempt {attempt}"
        )


def check_open(before: RunRecord, attempt: int) -> None:
    """Raise RunStateError, with the fix, once nothing of this attempt may start any more."""
    if attempt < before.attempt:
        raise RunStateError(
            f"{before.run_id} is at attempt {before.attempt}, attempt {attempt} is past: "
            f"`pulumi config set paddock:attempt {before.attempt} -s {before.run_id}`"
        )
    if attempt == before.attempt and before.is_over:
        why = f": {before.reason}" if before.reason else ""
        raise RunStateError(
            over_message(before.run_id, attempt, what=f"is over ({before.state}{why})")
        )


def over_message(run_id: str, attempt: int, *, what: str) -> str:
    """Return the refusal of a start at an attempt that is over, with both fixes."""
    return (
        f"{run_id}: attempt {attempt} {what} and does not start again: "
        f"`paddock resume {run_id}`, or `pulumi config set paddock:attempt {attempt + 1} "
        f"-s {run_id}` and `pulumi up -s {run_id}`"
    )


def _current(record: RunRecord | None, attempt: int) -> RunRecord:
    if record is None:
        raise RunStateError("there is no record of this run")
    if record.attempt != attempt:
        raise RunStateError(
            f"{record.run_id}: the record is at attempt {record.attempt}, not {attempt}"
        )
    return record
