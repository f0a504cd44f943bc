"""What to do next for a volume that is being made, changed or removed; pure decisions.

Called by `runtime.control.volume_stacks`, once a second for each volume that is not settled.
"""

import re
from dataclasses import dataclass

from runtime.control.failures import PROVISION_TIMEOUT
from runtime.control.operations import OperationKind, OperationReport, OperationState
from runtime.control.values import Volume, VolumeStatus

_KEPT_SIZE = re.compile(r"claim \S+ stays at (\S+): ")
"""As `infra.k8s.claim` says that a claim which is there was not made larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Perform:
    """Begin an operation on the volume's stack; after a failure once it has waited."""

    kind: OperationKind
    is_again: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """Write where the volume is; `size` is what it really has, where that is not as wanted."""

    status: VolumeStatus
    reason: str = ""
    size: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Forget:
    """The volume is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """An operation is under way."""


VolumeStep = Perform | Settle | Forget | Wait


def next_volume_step(
    volume: Volume, report: OperationReport | None, stored_size: str | None
) -> VolumeStep:
    """Return what follows; `stored_size` is that of the stack's stored settings, None = no stack.

    A server that knows no report begins again: each operation is idempotent.
    """
    if report is not None and report.state is OperationState.RUNNING:
        return Wait()
    failed = report if report is not None and report.state is OperationState.FAILED else None
    done = report.kind if report is not None and failed is None else None
    if volume.status is VolumeStatus.TERMINATING:
        return _removal(done, failed, has_stack=stored_size is not None)
    kind = OperationKind.MAKE if stored_size is None else OperationKind.UP
    if kind is OperationKind.UP and done is OperationKind.UP and stored_size == volume.size:
        return Settle(status=VolumeStatus.RUNNING)
    if failed is None or failed.kind not in {OperationKind.MAKE, OperationKind.UP}:
        return Perform(kind=kind)
    kept = _KEPT_SIZE.search(failed.message)
    if kept is not None:
        return Settle(status=VolumeStatus.RUNNING, reason=failed.message, size=kept[1])
    # a volume holds no room meanwhile, so one that takes long to be made is waited for
    if not failed.is_retryable and failed.code != PROVISION_TIMEOUT:
        return Settle(status=VolumeStatus.FAILED, reason=failed.message)
    return Perform(kind=kind, is_again=True, reason=failed.message)


def _removal(
    done: OperationKind | None, failed: OperationReport | None, *, has_stack: bool
) -> VolumeStep:
    if done is OperationKind.REMOVE:
        return Forget()
    if failed is not None and failed.kind in {OperationKind.DESTROY, OperationKind.REMOVE}:
        return Perform(kind=failed.kind, is_again=True, reason=failed.message)
    is_destroyed = done is OperationKind.DESTROY or not has_stack
    return Perform(kind=OperationKind.REMOVE if is_destroyed else OperationKind.DESTROY)
