"""Operations on a run's stack, as values, and who performs them, as a protocol.

An operation is written into the store (`runtime.control.store.operations.begin`) in the same
transaction as the decision for it, and only then started. Whoever started it writes its end there,
under its id. So after a crash every server sees what was under way. Nothing here runs Pulumi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from pydantic import JsonValue

from runtime.control.values import Lease
from runtime.errors import PaddockError

CAPACITY = "capacity"
"""Code of an `up` that was refused for want of room: the run queues again. Slots are refused before
anything is started, a count quota of Kubernetes refuses an object after others were made."""

LOST_LEASE = "lost_lease"
"""Code of an operation that was never begun, since its run has gone to another server."""

ENGINE_ALIVE = "engine_alive"
"""Code of a RECOVER that could not prove the earlier engine dead; it is tried again."""

UNREACHABLE = "teardown_unreachable"
"""Code of a destroy whose cluster does not answer."""

OPERATION_S = 2000.0
"""How long an operation may take at most: more than each call of the engine may, of which a destroy
after a crash has two."""

DRAIN_S = 20.0
"""How long a server that ends waits for operations; a service of systemd has 90 s to end."""


class OperationKind(StrEnum):
    """What is done with a run's stack."""

    MAKE = "make"
    """Private project, empty stack, settings file, secrets. A failure leaves nothing."""
    SET = "set"
    """Write the changed `settings` and `secrets` of a stack that is there, before a resume."""
    UP = "up"
    """Write the changed `settings` (cluster, GPU type), then bring the stack up."""
    RESUME = "resume"
    """Write the changed `settings`, `attempt` among them, then bring the stack up."""
    DESTROY = "destroy"
    """End everything that the stack has; idempotent."""
    REMOVE = "remove"
    """Remove the empty stack, its settings file and its private project; idempotent."""
    RECOVER = "recover"
    """After the server of an operation died: prove its engine dead, cancel its update and clear
    what it was creating. FAILED with `ENGINE_ALIVE`, retryable, while the engine may live."""


class OperationState(StrEnum):
    """Where an operation is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """An operation to be performed.

    `secrets` are those of MAKE and SET: they are nowhere else but in the worker's stdin.
    `settings` are plain values by key without the namespace: all for MAKE, else what changes.
    """

    operation_id: str
    kind: OperationKind
    run_id: str
    attempt: int
    cluster: str
    lease: Lease | None = None
    """The lease under which it was decided; once lost, no engine is started for it any more."""
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_server_died: bool = False
    """Of a RECOVER: the server of what it recovers is dead, so that is ended at its limit."""
    is_adopted: bool = False
    """A person made the stack: its settings are those that it was last brought up with, and a
    REMOVE takes away only the private project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationReport:
    """How far an operation is; `message` is for the run's reader and holds no secret."""

    operation_id: str
    kind: OperationKind
    run_id: str
    attempt: int
    state: OperationState
    code: str = ""
    """A PaddockError's code where it failed."""
    message: str = ""
    is_retryable: bool = False
    finished_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredOperation(OperationReport):
    """The newest operation of a run, as the store holds it."""

    cluster: str
    holder: str
    """The server that performs it; it is known to live by its lease (`server_lease`)."""
    recovers: OperationKind | None = None
    """Of a RECOVER, the kind of the operation whose server died; None where an `up` met a lock."""
    num_tries: int = 1
    """How often in a row this kind has been begun at this attempt; a RECOVER after an `up` that met
    a lock goes on counting, and so does the next `up`."""
    started_at: datetime


def not_performed(
    operation: Operation | StoredOperation, code: str, message: str
) -> OperationReport:
    """Return the report of an operation that never began, and may be begun again."""
    return OperationReport(
        operation_id=operation.operation_id,
        kind=operation.kind,
        run_id=operation.run_id,
        attempt=operation.attempt,
        state=OperationState.FAILED,
        code=code,
        message=message,
        is_retryable=True,
    )


def server_lease(holder: str) -> str:
    """Return the name of the lease that a server holds while it lives."""
    return f"server/{holder}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorLimits:
    """How much is done at once, and for how long."""

    num_workers: int = 4
    operation_s: float = OPERATION_S
    grace_s: float = 60.0
    drain_s: float = DRAIN_S
    """How long a server that ends waits for what is under way."""
    ends_operations: bool = False
    """Interrupt what is under way then; else it goes on alone."""


class OperationBusyError(PaddockError):
    """An operation of the same run is still under way."""

    code = "operation_busy"


class Operator(Protocol):
    """Performs operations, each in a process of its own; every method returns at once.

    Safe to call from several threads. At most a bounded number of operations run at a time, the
    others wait for their turn as RUNNING.
    """

    def start(self, operation: Operation) -> None:
        """Begin an operation; raises OperationBusyError while one of the same run is under way."""
        ...

    def state(self, run_id: str) -> OperationReport | None:
        """Return the newest operation of a run that this server or a dead one on its host began.

        None where nothing is known of any.
        """
        ...

    def interrupt(self, run_id: str) -> None:
        """Ask the operation of a run to end early; it then reports FAILED. No operation is fine."""
        ...

    def close(self) -> None:
        """Take no more operations; those under way are left to finish within the grace period."""
        ...
