"""What follows for a volume, by its row, the newest operation and the stored settings."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from runtime.control.failures import PROVISION_TIMEOUT
from runtime.control.operations import OperationKind, OperationReport, OperationState
from runtime.control.values import Volume, VolumeStatus
from runtime.control.volume_steps import (
    Forget,
    Perform,
    Settle,
    VolumeStep,
    Wait,
    next_volume_step,
)

MAKE, UP = OperationKind.MAKE, OperationKind.UP
DESTROY, REMOVE = OperationKind.DESTROY, OperationKind.REMOVE
PENDING, TERMINATING = VolumeStatus.PENDING, VolumeStatus.TERMINATING
STAYS = "claim volume-v stays at 1Ti: its class must support resize"


def volume(status: VolumeStatus) -> Volume:
    return Volume(
        volume_id="v",
        name="shelf",
        user_id="u",
        size="2Ti",
        cluster="local",
        claim_name="volume-v",
        status=status,
        created_at=datetime(2026, 11, 29, tzinfo=UTC),
    )


def report(
    kind: OperationKind, state: str, *, is_retryable: bool = False, code: str = ""
) -> OperationReport:
    return OperationReport(
        operation_id="o",
        kind=kind,
        run_id="volume-v",
        attempt=1,
        state=OperationState(state),
        message="why",
        is_retryable=is_retryable,
        code=code,
    )


@pytest.mark.parametrize(
    ("status", "newest", "stored_size", "expected"),
    [
        (PENDING, None, None, Perform(kind=MAKE)),
        (PENDING, report(MAKE, "running"), None, Wait()),
        (PENDING, report(MAKE, "done"), "2Ti", Perform(kind=UP)),
        (PENDING, None, "2Ti", Perform(kind=UP)),  # another server made it
        (PENDING, report(UP, "done"), "2Ti", Settle(status=VolumeStatus.RUNNING)),
        (PENDING, report(UP, "done"), "1Ti", Perform(kind=UP)),  # it is to grow
        (
            PENDING,
            report(UP, "failed", code=PROVISION_TIMEOUT),
            "2Ti",
            Perform(kind=UP, is_again=True, reason="why"),
        ),
        (
            PENDING,
            report(UP, "failed"),
            "2Ti",
            Settle(status=VolumeStatus.FAILED, reason="why"),
        ),
        (
            PENDING,
            replace(report(UP, "failed"), message=STAYS),
            "2Ti",
            Settle(status=VolumeStatus.RUNNING, reason=STAYS, size="1Ti"),
        ),
        (
            PENDING,
            report(UP, "failed", is_retryable=True),
            "2Ti",
            Perform(kind=UP, is_again=True, reason="why"),
        ),
        (TERMINATING, report(UP, "done"), "2Ti", Perform(kind=DESTROY)),
        (TERMINATING, report(UP, "running"), "2Ti", Wait()),
        (TERMINATING, None, "2Ti", Perform(kind=DESTROY)),
        (TERMINATING, None, None, Perform(kind=REMOVE)),
        (TERMINATING, report(DESTROY, "done"), "2Ti", Perform(kind=REMOVE)),
        (
            TERMINATING,
            report(DESTROY, "failed"),
            "2Ti",
            Perform(kind=DESTROY, is_again=True, reason="why"),
        ),
        (TERMINATING, report(REMOVE, "done"), None, Forget()),
    ],
)
def test_a_volume_goes_on(
    status: VolumeStatus,
    newest: OperationReport | None,
    stored_size: str | None,
    expected: VolumeStep,
) -> None:
    assert next_volume_step(volume(status), newest, stored_size) == expected
