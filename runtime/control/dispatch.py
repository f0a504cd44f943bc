"""Dispatch of a run as a stack: settings, secrets, then the stack; all of it or nothing."""

from collections.abc import Mapping
from typing import Any

from runtime.control import stacks
from runtime.control.stacks import Project
from runtime.errors import StackError
from runtime.stack_settings import parse_settings


def new_run_stack(
    project: Project,
    stack: str,
    settings: Mapping[str, Any],
    *,
    secrets: Mapping[str, str],
) -> None:
    """Make a run's stack with its settings file; `settings` by key, None means unset.

    Raises StackError when the stack is there, SettingsError for a wrong setting. A failure half-way
    removes what was made.
    """
    plain = {"kind": "run", **{key: value for key, value in settings.items() if value is not None}}
    parse_settings(plain, stack=stack)
    new_stack(project, stack, plain, secrets=secrets)


def new_stack(
    project: Project,
    stack: str,
    settings: Mapping[str, Any],
    *,
    secrets: Mapping[str, str] | None = None,
) -> None:
    """Make any stack with its settings file; see `new_run_stack`."""
    path = project.settings_file(stack)
    before = path.read_bytes() if path.exists() else None
    if before is not None and stack in stacks.list_stacks(project):
        raise StackError(
            f"stack {stack} is there already ({path}): choose another name, or "
            f"`paddock destroy {stack} --remove` first"
        )
    stacks.init_stack(project, stack)
    try:
        stacks.write_settings(project, stack, settings)
        # one by one, as they are set by hand: a whole object in one secret would be lost with the
        # first `pulumi config set --path paddock:env.KEY`
        for name, value in (secrets or {}).items():
            stacks.set_secret(project, stack, f"env.{name}", value)
    except BaseException:
        stacks.remove_stack(project, stack)
        if before is not None:
            path.write_bytes(before)
        raise
