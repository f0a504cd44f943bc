"""`paddock train logs`: the log of one component, followed and filtered, while it lives and after.

The server filters; here lines are asked for, made readable, and told apart from those shown.
"""

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from runtime import naming
from runtime.commands.interrupts import end_by_interrupt
from runtime.commands.remote.connection import RunIdArgument, ServerOption, connected
from runtime.commands.session import say
from runtime.errors import Problem, SettingsError
from runtime.observe.log_filter import parse_since

if TYPE_CHECKING:
    from runtime.client.logs import LogsAsked

_COMPONENTS = ("orchestrator", "trainer", "inference", "router", "env-server")
_LEVELS = ("ERROR", "WARNING", "SUCCESS", "INFO", "DEBUG")
_MAX_LINES = 5000
_MAX_SINCE_S = 10 * 366 * 86_400
"""The server takes no more, and has no line that is older."""

_ON_ITS_WAY_S = 2.0
"""How long a request may be on its way to the server."""

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
    since: Annotated[
        str | None,
        typer.Option(help="15m, 1h, 1d, seconds, or an ISO time; one without a zone is UTC"),
    ] = None,
    server: ServerOption = None,
) -> None:
    """Print the log of a component."""
    problems = _problems(component=component, env=env, search=search, level=level, is_regex=regex)
    since_s = _seconds(since, problems) if since is not None else None
    if problems:
        raise SettingsError(problems, source="train logs")
    if since_s is not None and since_s < 0:
        say(f"warning: --since {since} lies in the future: no line is that young")
        return
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


def _seconds(since: str, problems: list[Problem]) -> int:
    """Return how long ago a time is, at least a second; under zero for one that is to come.

    A point in time moves away until the server reads this: rather a line too many than the first
    ones lost.
    """
    now = time.time()
    try:
        begin = parse_since(since, now=now)
        is_point = parse_since(since, now=0.0) == begin
    except SettingsError as error:
        problems += error.problems
        return 0
    if begin > now:
        return -1
    ago = math.ceil(now - begin + _ON_ITS_WAY_S) if is_point else round(now - begin)
    return min(max(ago, 1), _MAX_SINCE_S)


def _one_of(flag: str, value: str, known: tuple[str, ...]) -> Problem:
    return Problem(loc=(flag,), message=f"{value!r} is none of {', '.join(known)}")
