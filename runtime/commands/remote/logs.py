"""`paddock train logs`: the log of one component, followed and filtered, while it lives and after.

The server filters; here lines are asked for, made readable, and told apart from those shown.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from runtime import naming
from runtime.commands.interrupts import end_by_interrupt
from runtime.commands.remote.connection import RunIdArgument, ServerOption, connected
from runtime.commands.session import say
from runtime.errors import Problem, SettingsError

if TYPE_CHECKING:
    from runtime.client.logs import LogsAsked

_COMPONENTS = ("orchestrator", "trainer", "inference", "router", "env-server")
_LEVELS = ("ERROR", "WARNING", "SUCCESS", "INFO", "DEBUG")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MAX_LINES = 5000

ComponentOption = Annotated[
    str | None,
    typer.Option("--component", "-c", help=f"{', '.join(_COMPONENTS)}; default: the first"),
]


def logs(
    run_id: RunIdArgument,
    component: ComponentOption = None,
    env: Annotated[
        str | None, typer.Option(help="env server by name; NAME/N where several share a name")
    ] = None,
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=1, max=_MAX_LINES, help="only the last N lines")
    ] = 1000,
    all_lines: Annotated[
        bool, typer.Option("--all", help=f"as many lines as the server gives: {_MAX_LINES}")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="keep printing new lines until the run is over")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", "-r", help="lines as they were written")] = False,
    search: Annotated[str | None, typer.Option(help="only lines that contain this")] = None,
    regex: Annotated[
        bool, typer.Option("--regex", help="--search is a regular expression")
    ] = False,
    level: Annotated[str | None, typer.Option(help="ERROR, WARNING, SUCCESS, INFO, DEBUG")] = None,
    since: Annotated[str | None, typer.Option(help="15m, 1h, 1d, or seconds")] = None,
    server: ServerOption = None,
) -> None:
    """Print the log of a component."""
    problems = _problems(component=component, env=env, search=search, level=level, is_regex=regex)
    since_s = _seconds(since, problems)
    if problems:
        raise SettingsError(problems, source="train logs")
    from runtime.client.logs import LogsAsked

    asked = LogsAsked(
        run_id=run_id,
        component=component or naming.ORCHESTRATOR,
        env=env,
        tail=_MAX_LINES if all_lines else tail,
        search=search,
        is_regex=regex,
        level=level,
        since_s=since_s,
    )
    end_by_interrupt(partial(_print, server, asked, is_followed=follow, is_raw=raw))


def _print(server: str | None, asked: "LogsAsked", *, is_followed: bool, is_raw: bool) -> None:
    from runtime.client import logs as client_logs

    shown = str if is_raw else client_logs.shown_line
    with connected(server) as api:
        if is_followed:
            for line in client_logs.follow_lines(api, asked, say=say):
                typer.echo(shown(line))
            return
        try:
            found = client_logs.read_lines(api, asked)
        except client_logs.NotStartedError as error:
            say(f"{error}. Follow with -f to wait for them.")
            return
    for line in found:
        typer.echo(shown(line))
    if not found:
        is_filtered = asked.search or asked.level or asked.since_s
        say("No lines match." if is_filtered else "No logs available yet.")


def _problems(
    *, component: str | None, env: str | None, search: str | None, level: str | None, is_regex: bool
) -> list[Problem]:
    found = []
    if component is not None and component not in _COMPONENTS:
        found.append(_one_of("--component", component, _COMPONENTS))
    elif env is not None and component not in {None, "env-server"}:
        message = f"names an env server, and --component {component} is none"
        found.append(Problem(loc=("--env",), message=message, fix="leave one of them out"))
    elif component == "env-server" and env is None:
        fix = "paddock train components lists their names"
        message = "env-server needs --env NAME"
        found.append(Problem(loc=("--component",), message=message, fix=fix))
    if level is not None and level.upper() not in _LEVELS:
        found.append(_one_of("--level", level, _LEVELS))
    if is_regex and not search:
        found.append(Problem(loc=("--regex",), message="needs the expression in --search"))
    return found


def _seconds(since: str | None, problems: list[Problem]) -> int | None:
    if since is None:
        return None
    text = since.strip().lower()
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if number.isascii() and number.isdigit() and int(number[:12]) * _UNITS[unit] > 0:
        return int(number[:12]) * _UNITS[unit]
    fix = "15m, 1h, 1d, or seconds"
    problems.append(Problem(loc=("--since",), message=f"{since!r} is no length of time", fix=fix))
    return None


def _one_of(flag: str, value: str, known: tuple[str, ...]) -> Problem:
    return Problem(loc=(flag,), message=f"{value!r} is none of {', '.join(known)}")
