"""What the engine's words mean for the reconciler."""

import pytest

from runtime.control.engine_call import KilledError, LateError
from runtime.control.failures import PROVISION_TIMEOUT, failure_of
from runtime.control.locks import LockedError
from runtime.control.operations import CAPACITY, ENGINE_ALIVE, UNREACHABLE, OperationKind
from runtime.errors import SettingsError, StackError
from runtime.stack_settings import bad_run_id

UP, DESTROY = OperationKind.UP, OperationKind.DESTROY

REFUSED = """pulumi up failed with exit code 255
  paddock:index:RunSpec (run-one):
    error: Exception calling application: needs 2 slots, 0 of 4 are free (wait for a run to end)
  pulumi:pulumi:Stack (paddock-run-one):
    error: update failed"""
AWAY = "pulumi destroy failed with exit code 255\n  error: it is away (teardown=unreachable, noted)"
LOCKED = "pulumi up failed with exit code 255\nerror: the stack is currently locked by 1 lock(s)."
LATE = "pulumi up was not done within 900 s and was ended: see what it waited for"
BROKEN = "pulumi up failed with exit code 255\n    error: the model is not in the cache"
SILENT = "pulumi up failed with exit code 255\n    error: the Kubernetes API does not answer"


@pytest.mark.parametrize(
    ("error", "kind", "code", "is_retryable"),
    [
        (StackError(REFUSED), UP, CAPACITY, True),
        (StackError(AWAY), DESTROY, UNREACHABLE, True),
        (StackError(LOCKED), UP, ENGINE_ALIVE, True),
        (LockedError("run-one is locked by pid 4"), UP, ENGINE_ALIVE, True),
        (StackError(BROKEN), UP, "stack", False),
        (StackError(BROKEN), DESTROY, "stack", True),
        (StackError(SILENT), UP, "stack", True),
        (LateError(LATE), UP, PROVISION_TIMEOUT, False),
        (LateError(LATE), OperationKind.RESUME, PROVISION_TIMEOUT, False),
        (LateError(LATE), OperationKind.MAKE, PROVISION_TIMEOUT, False),
        (LateError(LATE), DESTROY, "stack_late", True),
        (LateError(LATE), OperationKind.REMOVE, "stack_late", True),
        (LateError(LATE), OperationKind.RECOVER, "stack_late", True),
        (LateError(f"{LATE}\n{REFUSED}"), UP, PROVISION_TIMEOUT, False),
        (KilledError("pulumi up was killed by signal 9"), UP, "stack_killed", True),
        (SettingsError([bad_run_id("x")]), OperationKind.MAKE, "settings", False),
        (KeyboardInterrupt(), UP, "interrupted", True),
        (OSError("No space left on device"), UP, "operation", True),
        (ValueError("a bug"), UP, "operation", False),
    ],
)
def test_a_failure_has_a_code_and_says_whether_to_try_again(
    error: BaseException, kind: OperationKind, code: str, is_retryable: bool
) -> None:
    failure = failure_of(error, kind)

    assert (failure.code, failure.is_retryable) == (code, is_retryable)


def test_the_message_is_the_reason_without_the_engines_frame() -> None:
    failure = failure_of(StackError(REFUSED), UP)

    assert failure.message == "needs 2 slots, 0 of 4 are free (wait for a run to end)"


def test_the_message_of_what_was_late_has_its_code_and_the_engines_last_words() -> None:
    late = f"{PROVISION_TIMEOUT}: pulumi up was not done within 900 s and was ended"

    assert PROVISION_TIMEOUT == "provision-timeout"
    assert failure_of(LateError(LATE), UP).message == late
    error = LateError(f"{LATE}\n    error: the model is not in the cache")
    assert failure_of(error, UP).message == f"{late}; the model is not in the cache"


def test_the_message_has_nothing_that_is_no_error() -> None:
    text = """pulumi up failed with exit code 255
  pulumi:pulumi:Stack (paddock-run-one):
    notice: name: read as prime-rl's run.name
    warning: a model is far away
SDK 2026/12/01 07:00:00 WARN Response has no supported checksum.
    error: Resource monitor has terminated, shutting down
  paddock:index:RunSpec (run-one):
    error: run-one: its supervisor did not come up
Outputs:
    claim: "run-one\""""

    assert failure_of(StackError(text), UP).message == "run-one: its supervisor did not come up"


def test_an_unexpected_error_says_its_kind_only() -> None:
    assert failure_of(ValueError("/etc/secret"), UP).message == "up failed: ValueError"


def test_no_secret_is_in_a_message_and_no_message_is_long() -> None:
    error = StackError("pulumi config failed with exit code 255\nerror: bad value s3cret s3cret-2")

    failure = failure_of(error, OperationKind.MAKE, secrets=["s3cret", "s3cret-2", ""])
    long = failure_of(StackError("x" * 10_000), UP)

    assert failure.message == "bad value *** ***"
    assert len(long.message) < 700
