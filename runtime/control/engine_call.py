"""One call of `pulumi`: a process with a watchdog, its lines as they come, its failure as an error.

Called by `runtime.control.stacks` only, which knows what is called.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Timer

from runtime.errors import StackError

OnLine = Callable[[str], None]
_TIMEOUT_S = 900.0
"""Watchdog of one operation; an `up` only waits for acceptance, never for GPUs."""

_NUM_TRIES = 3
_VANISHED = re.compile(r"list bucket: blob \(code=NotFound\): lstat \S+\.tmp: no such file")
"""A file backend is listed while another stack's engine renames what it has just written there."""

_GRACE_S = 30.0
"""From the one SIGINT, after which the engine saves its state, to SIGKILL."""


class LateError(StackError):
    """An operation was ended at the watchdog's limit."""

    code = "stack_late"


class KilledError(StackError):
    """An engine was killed by somebody else, for want of memory say."""

    code = "stack_killed"


def call_engine(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str],
    stdin: str | None = None,
    on_line: OnLine | None = None,
) -> str:
    """Run `pulumi` in a project's folder, return its stdout; raises StackError with its words.

    What met another engine's passing file in the backend is run again: nothing had begun.
    """
    for _ in range(_NUM_TRIES - 1):
        try:
            return _call_once(command, folder, environment, stdin, on_line)
        except StackError as error:
            if _VANISHED.search(str(error)) is None:
                raise
    return _call_once(command, folder, environment, stdin, on_line)


def _call_once(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: str | None,
    on_line: OnLine | None,
) -> str:
    argv = ["pulumi", *command, "--non-interactive", "--color", "never"]
    streamed = on_line is not None
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if streamed else subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # the terminal's Ctrl-C reaches us alone; we pass on one SIGINT
    )
    with process, _watchdog(process) as is_late:
        text = _communicate(process, stdin, on_line)
    if process.returncode != 0:
        what = f"pulumi {' '.join(command[:2])}"
        if is_late.is_set():
            raise LateError(
                f"{what} was not done within {_TIMEOUT_S:g} s and was ended: see what it waited "
                f"for, then run it again, or `paddock destroy` the run\n{text[1]}".rstrip()
            )
        if process.returncode < 0:
            raise KilledError(f"{what} was killed by signal {-process.returncode}")
        raise StackError(f"{what} failed with exit code {process.returncode}\n{text[1]}".rstrip())
    return text[0]


def _communicate(
    process: subprocess.Popen[str], stdin: str | None, on_line: OnLine | None
) -> tuple[str, str]:
    """Return (stdout, what explains a failure); passes on one interrupt and waits for the end."""
    try:
        if on_line is None:
            out, err = process.communicate(stdin)
            return out, err
        assert process.stdout is not None
        last: deque[str] = deque(maxlen=40)
        for line in process.stdout:
            last.append(line)
            on_line(line.rstrip("\n"))
        process.wait()
        return "", "" if process.returncode == 0 else _diagnostics("".join(last))
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_GRACE_S)  # whom nobody reads is not done before its time
        except subprocess.TimeoutExpired:
            process.kill()  # its host and providers end with it; `destroy` breaks the lock
        raise


def _diagnostics(text: str) -> str:
    """Return the engine's diagnostics, or everything where there is no such heading."""
    _, heading, rest = text.partition("Diagnostics:")
    return rest.partition("\nResources:")[0].strip("\n") if heading else text


@contextlib.contextmanager
def _watchdog(process: subprocess.Popen[str]) -> Iterator[Event]:
    """Interrupt the operation at its limit, later kill it; the event tells that it was late."""
    is_late = Event()

    def interrupt() -> None:
        is_late.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timers = [Timer(_TIMEOUT_S, interrupt), Timer(_TIMEOUT_S + _GRACE_S, kill)]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield is_late
    finally:
        for timer in timers:
            timer.cancel()
