"""Every Pulumi operation of paddock: the only module that runs `pulumi`, one process an operation.

An operation works on a project directory (the user's checkout, or a private one of the control
plane), streams its lines, and fails as one StackError. Secrets go in through stdin, never argv.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from runtime import naming
from runtime.control.backend import file_backend
from runtime.control.engine_call import OnLine, call_engine
from runtime.control.locks import (
    IsDead,
    StackLock,
    drop_dead_locks,
    is_owner_dead,
    remove_torn_sidecars,
    require_dead,
    stack_locks,
    told_locks,
)
from runtime.errors import NotFoundError, StackError


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A project directory and the environment of its operations (`pulumi_environment`)."""

    path: Path
    environment: Mapping[str, str] = field(repr=False)

    def settings_file(self, stack: str) -> Path:
        """Return the settings file of a stack."""
        return self.path / "stacks" / f"Pulumi.{stack}.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedStack:
    """A stack as the backend lists it: its last update, empty where none was."""

    name: str
    updated: str
    num_resources: int | None
    """None where the backend does not say."""


def list_stacks(project: Project) -> list[str]:
    """Return the names of the project's stacks in the backend.

    Every command asks this first, so what a killed engine left half-written is removed here.
    """
    return list(stack_updates(project))


def stack_updates(project: Project) -> dict[str, str]:
    """Return the time of the last update of each stack of the project, empty where none was."""
    return {stack.name: stack.updated for stack in listed_stacks(project)}


def listed_stacks(project: Project) -> list[ListedStack]:
    """Return what the backend lists of each stack of the project."""
    backend = file_backend(project.environment)
    if backend is not None:
        remove_torn_sidecars(backend)
    answer = _run(project, ["stack", "ls", "--json"])
    return [
        ListedStack(
            name=str(stack["name"]).rsplit("/", 1)[-1],
            updated=str(stack.get("lastUpdate") or ""),
            num_resources=stack.get("resourceCount"),
        )
        for stack in json.loads(answer or "[]")
    ]


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
    _write_document(path, document)


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


def refresh_settings(project: Project, stack: str, *, without: Collection[str] = ()) -> None:
    """Write the settings file that a stack was last brought up with: plain, ciphertext and salt.

    `without` are plain settings to leave out. Raises StackError for a stack that was never up.
    """
    _run(project, ["config", "refresh", "--stack", stack, "--force"])
    path = project.settings_file(stack)
    document = yaml.safe_load(path.read_text())
    left_out = {f"{naming.PROJECT}:{key}" for key in without}
    # the engine keeps every declared setting in an update, those that nobody has set as empty
    document["config"] = {
        key: value
        for key, value in (document.get("config") or {}).items()
        if value != "" and key not in left_out
    }
    _write_document(path, document)


def check_secrets(project: Project, stack: str) -> None:
    """Raise StackError where this project's passphrase or key does not open a stack's secrets.

    Leaves a secret in the settings file, which is there already; the stack is not touched.
    """
    set_secret(project, stack, "probe", "opened")


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
    """Bring a stack up, past a dead engine's lock; returns when the run is accepted."""
    _run_past_lock(project, stack, ["up", "--yes", "--skip-preview"], on_line)


def outputs(project: Project, stack: str) -> dict[str, Any]:
    """Return the stack's outputs; secret ones are masked by the engine."""
    return json.loads(_run(project, ["stack", "output", "--json", "--stack", stack]) or "{}")


def destroy(project: Project, stack: str, on_line: OnLine) -> None:
    """Destroy a stack from state alone, after breaking a lock whose owner is proved dead.

    Raises LockedError while the lock's owner lives, or when it cannot be proved dead.
    """
    recover(project, stack, on_line)
    _run_past_lock(project, stack, ["destroy", "--yes", "--skip-preview"], on_line)


def recover(
    project: Project,
    stack: str,
    on_line: OnLine,
    *,
    is_dead: IsDead = is_owner_dead,
    is_probed: bool = False,
) -> bool:
    """Cancel the update of a dead engine and clear what it was creating; tell if there was one.

    A backend that is no folder shows no lock: there only a command that meets one tells, which is
    asked where `is_probed`. Raises LockedError while a lock's owner is not proved dead.
    """
    if file_backend(project.environment) is not None:
        was_locked = break_lock(project, stack, on_line, is_dead=is_dead)
        if was_locked:
            _clear(project, stack, on_line)
        return was_locked
    if not is_probed or not project.settings_file(stack).exists():  # without them it was never up
        return False
    try:
        _clear(project, stack, on_line)
    except StackError as error:
        _cancel_told(project, stack, error, on_line, is_dead=is_dead)
        _clear(project, stack, on_line)
        return True
    return False


def break_lock(
    project: Project, stack: str, on_line: OnLine, *, is_dead: IsDead = is_owner_dead
) -> bool:
    """Cancel the update of an engine that is proved dead; tell whether there was one.

    Raises LockedError while the owner is not proved dead.
    """
    backend = file_backend(project.environment)
    locks = stack_locks(backend, stack) if backend is not None else []
    _cancel(project, stack, locks, on_line, is_dead=is_dead)
    return bool(locks)


def unprotect(project: Project, stack: str, on_line: OnLine) -> None:
    """Let the resources of a stack be destroyed that are protected against it."""
    _run_past_lock(project, stack, ["state", "unprotect", "--all", "--yes"], on_line)


def remove_stack(project: Project, stack: str, on_line: OnLine = lambda line: None) -> None:
    """Remove an empty stack that paddock made, and its settings file."""
    _run_past_lock(project, stack, ["stack", "rm", "--yes", "--preserve-config"], on_line)
    forget_stack(project, stack)


def forget_stack(project: Project, stack: str) -> None:
    """Remove what an engine that was killed while it removed a stack left of it."""
    backend = file_backend(project.environment)
    if backend is not None:
        drop_dead_locks(backend, stack)
    project.settings_file(stack).unlink(missing_ok=True)


def _run_past_lock(project: Project, stack: str, command: Sequence[str], on_line: OnLine) -> None:
    """Run a command that takes the stack's lock; one of an engine proved dead is broken, once."""
    command = [*command, "--stack", stack]
    try:
        _run(project, command, on_line=on_line)
    except StackError as error:
        _cancel_told(project, stack, error, on_line)
        if command[0] != "stack":  # nothing was being created in one that is empty
            _clear(project, stack, on_line)
        _run(project, command, on_line=on_line)


def _clear(project: Project, stack: str, on_line: OnLine) -> None:
    """Clear what a dead engine was creating; takes the stack's lock."""
    refresh = ["refresh", "--stack", stack, "--yes", "--skip-preview"]
    _run(project, [*refresh, "--clear-pending-creates"], on_line=on_line)


def _cancel_told(
    project: Project,
    stack: str,
    error: StackError,
    on_line: OnLine,
    *,
    is_dead: IsDead = is_owner_dead,
) -> None:
    """Cancel the update whose lock the engine was refused for; raises any other error again."""
    locks = told_locks(str(error))
    if not locks:
        raise error
    _cancel(project, stack, locks, on_line, is_dead=is_dead)


def _cancel(
    project: Project, stack: str, locks: Sequence[StackLock], on_line: OnLine, *, is_dead: IsDead
) -> None:
    require_dead(stack, locks, is_dead)
    if locks:
        on_line(f"the engine that held {stack} is dead (pid {locks[0].pid}): cancelling its update")
        _run(project, ["cancel", "--stack", stack, "--yes"], on_line=on_line)


def _write_document(path: Path, document: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(yaml.safe_dump(document, sort_keys=False))
    temporary.replace(path)


def _run(
    project: Project,
    command: Sequence[str],
    *,
    stdin: str | None = None,
    on_line: OnLine | None = None,
) -> str:
    """Run one operation, return its stdout; raises StackError with the engine's own words."""
    folder, environment = project.path, project.environment
    return call_engine(command, folder, environment=environment, stdin=stdin, on_line=on_line)
