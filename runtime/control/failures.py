"""What became of a failed operation, read from the engine's words: code, message, another try?

Pure. The engine tells errors of our own program and of a provider as text only; the codes are what
the reconciler decides by. A message is for the run's reader, so it is short and names no secret.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from runtime.control.engine_call import KilledError, LateError
from runtime.control.locks import LockedError
from runtime.control.operations import CAPACITY, ENGINE_ALIVE, UNREACHABLE, OperationKind
from runtime.errors import PaddockError

INTERRUPTED = "interrupted"
"""Code of an operation that was asked to end early, or whose worker died."""

PROVISION_TIMEOUT = "provision-timeout"
"""Code, and first word of the message, of what makes a run or brings it up and was ended as late:
the run fails, since another try would hold its room for as long again."""

CUT_OFF = frozenset({INTERRUPTED, KilledError.code})
"""Codes of an operation that may be done again, and could not take back what it had made."""

NOT_TAKEN_BACK = CUT_OFF | {PROVISION_TIMEOUT}
"""Codes of an operation that could not take back what it had made."""

_PROVISIONING = frozenset(
    {OperationKind.MAKE, OperationKind.SET, OperationKind.UP, OperationKind.RESUME}
)
_MAX_CHARS = 600
_PATTERNS = (
    (UNREACHABLE, re.compile(r"\(teardown=unreachable")),
    (CAPACITY, re.compile(r"needs \d+ slots, \d+ of \d+ are free|exceeded quota")),
    (ENGINE_ALIVE, re.compile(r"the stack is currently locked by")),
)
_PASSING = re.compile(
    r"does not answer|connection (refused|reset)|timed out|time-?out|unexpected EOF"
    r"|too many requests|temporarily unavailable|no such host|database is locked",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"^(error: (update|destroy|refresh) failed|resource .* was unable to .*"
    r"|(notice|warning): .*|SDK .* WARN .*"
    r"|(error: )?Resource monitor has terminated, shutting down)$"
)
_PREFIXES = re.compile(r"^(error:|Exception calling application:|rpc error:|\* )\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why an operation failed, and whether the same one may succeed later."""

    code: str
    message: str
    is_retryable: bool


def failure_of(
    error: BaseException, kind: OperationKind, *, secrets: Iterable[str] = ()
) -> Failure:
    """Return what an error of an operation means; `secrets` are values to be struck out."""
    if isinstance(error, KeyboardInterrupt):
        return Failure(code=INTERRUPTED, message=f"{kind} was interrupted", is_retryable=True)
    text = str(error)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    message = _reason(text) or f"{kind} failed: {type(error).__name__}"
    if isinstance(error, LateError) and kind in _PROVISIONING:
        said = f"{PROVISION_TIMEOUT}: {_lateness(text)}"
        return Failure(code=PROVISION_TIMEOUT, message=said, is_retryable=False)
    if isinstance(error, LockedError):
        return Failure(code=ENGINE_ALIVE, message=message, is_retryable=True)
    code = next((code for code, pattern in _PATTERNS if pattern.search(text)), None)
    if code is not None:
        return Failure(code=code, message=message, is_retryable=True)
    may_pass = isinstance(error, KilledError | LateError) or _PASSING.search(text) is not None
    # what holds GPUs is torn down however often it takes
    may_pass = may_pass or kind in {OperationKind.DESTROY, OperationKind.REMOVE}
    is_ours = isinstance(error, PaddockError | OSError)
    return Failure(
        code=error.code if isinstance(error, PaddockError) else "operation",
        message=message if is_ours else f"{kind} failed: {type(error).__name__}",
        is_retryable=may_pass or isinstance(error, OSError),
    )


def _lateness(text: str) -> str:
    """Return what was late, and what the engine had said by then."""
    first, _, rest = text.partition("\n")
    late = first.partition(": ")[0]
    return f"{late}; {_reason(rest)}" if rest.strip() else late


def _reason(text: str) -> str:
    """Return the lines that say what is wrong, without the engine's frame around them."""
    first, _, rest = text.partition("\n")
    lines = (rest if first.startswith("pulumi ") and rest.strip() else text).splitlines()
    told: dict[str, None] = {}
    for line in lines:
        stripped = line.strip()
        if stripped == "Outputs:":  # of the stack as it was; diagnostics come before them
            break
        if not stripped or _NOISE.match(stripped) or re.match(r"^[\w:/.-]+ \([^)]*\):$", stripped):
            continue
        while (shorter := _PREFIXES.sub("", stripped)) != stripped:
            stripped = shorter
        told[stripped] = None
    reason = "; ".join(told)
    return reason if len(reason) <= _MAX_CHARS else f"{reason[:_MAX_CHARS]} ..."
