"""Every Pulumi operation of paddock: the only module that runs `pulumi`, one process an operation.

An operation works on a project directory (the user's checkout, or a private one of the control
plane), streams its lines, and fails as one StackError. Secrets go in through stdin, never argv.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Timer
from typing import Any

import yaml

from runtime import naming
from runtime.control.backend import file_backend
from runtime.control.locks import drop_dead_locks, is_owner_dead, remove_torn_sidecars, stack_locks
from runtime.errors import NotFoundError, StackError

OnLine = Callable[[str], None]
_TIMEOUT_S = 900.0
"""Watchdog of one operation; an `up` only waits for acceptance, never for GPUs."""

_GRACE_S = 30.0
"""From the one SIGINT, after which the engine saves its state, to SIGKILL."""


class LockedError(StackError):
    """An engine that is not proved dead holds the stack."""

    code = "stack_locked"


class LateError(StackError):
    """An operation was ended at the watchdog's limit."""

    code = "stack_late"


class KilledError(StackError):
    """An engine was killed by somebody else, for want of memory say."""

    code = "stack_killed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A project directory and the environment of its operations (`pulumi_environment`)."""

    path: Path
    environment: Mapping[str, str] = field(repr=False)

    def settings_file(self, stack: str) -> Path:
        """Return the settings file of a stack."""
        return self.path / "stacks" / f"Pulumi.{stack}.yaml"


def list_stacks(project: Project) -> list[str]:
    """Return the names of the project's stacks in the backend.

    Every command asks this first, so what a killed engine left half-written is removed here.
    """
    return list(stack_updates(project))


def stack_updates(project: Project) -> dict[str, str]:
    """Return the time of the last update of each stack of the project, empty where none was."""
    backend = file_backend(project.environment)
    if backend is not None:
        remove_torn_sidecars(backend)
    answer = _run(project, ["stack", "ls", "--json"])
    return {
        str(stack["name"]).rsplit("/", 1)[-1]: str(stack.get("lastUpdate") or "")
        for stack in json.loads(answer or "[]")
    }


def init_stack(project: Project, stack: str) -> None:
    """Make an empty stack in the backend; raises StackError when it is there already."""
    project.settings_file(stack).parent.mkdir(exist_ok=True)
    _run(project, ["stack", "init", stack, "--no-select"])


def write_settings(project: Project, stack: str, settings: Mapping[str, Any]) -> None:
    """Write the settings file of a stack, keeping what the engine stored in it.

    `settings` are plain values by key without the namespace; a secret goes through `set_secret`.
    """
    path = project.settings_file(stack)
    stored = yaml.safe_load(path.read_text()) if path.exists() else None
    document: dict[str, Any] = stored if isinstance(stored, dict) else {}
    config = document["config"] = document.get("config") or {}  # `config:` alone is null
    for key, value in settings.items():
        config[f"{naming.PROJECT}:{key}"] = value
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(yaml.safe_dump(document, sort_keys=False))
    temporary.replace(path)


def read_settings(project: Project, stack: str) -> dict[str, Any]:
    """Return the plain settings of a stack; raises NotFoundError where it has no settings file."""
    path = project.settings_file(stack)
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise NotFoundError(f"no stack {stack}: {path} does not exist") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StackError(f"{path} is not YAML: {error}") from None
    config = (document.get("config") or {}) if isinstance(document, dict) else {}
    prefix = f"{naming.PROJECT}:"
    return {key.removeprefix(prefix): value for key, value in config.items()}


def set_setting(project: Project, stack: str, key: str, value: str) -> None:
    """Set one plain setting of a stack that is there; comments in its settings file stay."""
    _run(project, ["config", "set", f"{naming.PROJECT}:{key}", value, "--stack", stack])


def set_secret(project: Project, stack: str, path: str, value: str) -> None:
    """Store a secret setting (`env.HF_TOKEN`); the value goes through stdin, byte for byte."""
    _run(
        project,
        ["config", "set", "--secret", "--path", f"{naming.PROJECT}:{path}", "--stack", stack],
        stdin=f"{value}\n",  # the engine takes one newline off the end
    )


def preview(project: Project, stack: str, on_line: OnLine, *, args: Sequence[str] = ()) -> None:
    """Preview a stack."""
    _run(project, ["preview", "--stack", stack, *args], on_line=on_line)


def up(project: Project, stack: str, on_line: OnLine) -> None:
    """Bring a stack up; returns when the run is accepted."""
    _run(project, ["up", "--stack", stack, "--yes", "--skip-preview"], on_line=on_line)


def outputs(project: Project, stack: str) -> dict[str, Any]:
    """Return the stack's outputs; secret ones are masked by the engine."""
    return json.loads(_run(project, ["stack", "output", "--json", "--stack", stack]) or "{}")


def destroy(project: Project, stack: str, on_line: OnLine) -> None:
    """Destroy a stack from state alone, after breaking a lock whose owner is proved dead.

    Raises LockedError while the lock's owner lives, or when it cannot be proved dead.
    """
    recover(project, stack, on_line)
    _run(project, ["destroy", "--stack", stack, "--yes", "--skip-preview"], on_line=on_line)


def recover(project: Project, stack: str, on_line: OnLine) -> bool:
    """Cancel the update of a dead engine and clear what it was creating; tell if there was one.

    Raises LockedError while the owner of the lock is not proved dead.
    """
    was_locked = break_lock(project, stack, on_line)
    if was_locked:
        refresh = ["refresh", "--stack", stack, "--yes", "--skip-preview"]
        _run(project, [*refresh, "--clear-pending-creates"], on_line=on_line)
    return was_locked


def break_lock(project: Project, stack: str, on_line: OnLine) -> bool:
    """Cancel the update of an engine that is proved dead; tell whether there was one.

    Raises LockedError while the owner lives, or is of another host.
    """
    backend = file_backend(project.environment)
    locks = stack_locks(backend, stack) if backend is not None else []
    for lock in locks:
        if not is_owner_dead(lock):
            raise LockedError(
                f"{stack} is locked by pid {lock.pid} on {lock.host or 'an unknown host'}, which "
                f"is not proved dead: wait for it, or `pulumi cancel --stack {stack}`"
            )
    if locks:
        on_line(f"the engine that held {stack} is dead (pid {locks[0].pid}): cancelling its update")
        _run(project, ["cancel", "--stack", stack, "--yes"], on_line=on_line)
    return bool(locks)


def unprotect(project: Project, stack: str) -> None:
    """Let the resources of a stack be destroyed that are protected against it."""
    _run(project, ["state", "unprotect", "--all", "--yes", "--stack", stack])


def remove_stack(project: Project, stack: str) -> None:
    """Remove an empty stack that paddock made, and its settings file."""
    _run(project, ["stack", "rm", stack, "--yes", "--preserve-config"])
    forget_stack(project, stack)


def forget_stack(project: Project, stack: str) -> None:
    """Remove what an engine that was killed while it removed a stack left of it."""
    backend = file_backend(project.environment)
    if backend is not None:
        drop_dead_locks(backend, stack)
    project.settings_file(stack).unlink(missing_ok=True)


def _run(
    project: Project,
    command: Sequence[str],
    *,
    stdin: str | None = None,
    on_line: OnLine | None = None,
) -> str:
    """Run one operation, return its stdout; raises StackError with the engine's own words."""
    argv = ["pulumi", *command, "--non-interactive", "--color", "never"]
    streamed = on_line is not None
    process = subprocess.Popen(
        argv,
        cwd=project.path,
        env=dict(project.environment),
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
            process.wait(_GRACE_S)
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
