"""Logs of a run: what is asked for, following by polling, and how a line is shown; the rest pure.

The server filters and sends a window of the last lines; what of it is new is found here.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtime.client.api import Api, Ask, Query, path_of
from runtime.client.errors import AwayError, RateLimitedError, UnreachableError
from runtime.client.printable import printable
from runtime.client.runs import get_run
from runtime.errors import NotFoundError

POLL_S = 3.0

_STARTS_LATER = re.compile("queued|pending|starting|not available yet", re.IGNORECASE)
"""By these words the server says that a run's logs have not begun."""

_ENV_SERVER = "env-server"
_NUMBERED = re.compile(r"(.+)/(\d{1,6})")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogsAsked:
    """Which lines of which component; `index` is a rank, a replica or an env server of one name."""

    run_id: str
    component: str
    env: str | None = None
    tail: int
    search: str | None = None
    is_regex: bool = False
    level: str | None = None
    since_s: int | None = None

    def to_ask(self) -> Ask:
        """Return the request; `NAME/N` is the N-th of the env servers of one name."""
        numbered = _NUMBERED.fullmatch(self.env) if self.env is not None else None
        filters: dict[str, str | int | bool | None] = {
            "tail_lines": self.tail,
            "search": self.search,
            "regex": True if self.is_regex else None,
            "level": self.level.upper() if self.level else None,
            "since_seconds": self.since_s,
        }
        chosen: Query
        if numbered is not None:
            chosen = {"env_name": numbered[1], "env_index": int(numbered[2])}
            path = path_of(self.run_id, "env-server-logs")
        else:
            component = _ENV_SERVER if self.env is not None else self.component
            chosen = {"component": component, "env_name": self.env}
            path = path_of(self.run_id, "logs")
        return Ask(path=f"/rft/runs{path}", query={**chosen, **filters}, source=self.run_id)


class NotStartedError(NotFoundError):
    """The run's logs have not begun; they will."""

    code = "not_started"


def read_lines(api: Api, asked: LogsAsked) -> list[str]:
    """Return the lines, oldest first. Raises NotStartedError before the first one."""
    try:
        text = api.ask(asked.to_ask()).get("logs")
    except NotFoundError as error:
        if _STARTS_LATER.search(str(error)):
            raise NotStartedError(str(error)) from None
        raise
    return text.removesuffix("\n").split("\n") if isinstance(text, str) and text else []


def follow_lines(
    api: Api,
    asked: LogsAsked,
    *,
    say: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield lines as they come, until the run is over and its last line has been read.

    A server that has answered and goes away, also behind a proxy, or wants fewer requests, is
    waited for.
    """
    shown: list[str] = []
    told = ""
    has_answered = False
    while True:
        wait_s = POLL_S
        try:
            is_last = get_run(api, asked.run_id).is_at_rest  # before the lines: none is missed
            found = read_lines(api, asked)
        except NotStartedError as error:
            news, is_last = f"{error}; waiting", False
        except RateLimitedError as error:
            news, is_last, wait_s = f"{error}; waiting", False, float(error.retry_after_s)
        except (UnreachableError, AwayError) as error:
            if not has_answered:
                raise
            news, is_last = f"{error}; waiting", False
        else:
            news = ""
            yield from new_lines(shown, found)
            shown = found or shown
        if news and news != told:
            say(news)
        told, has_answered = news, True
        if is_last:
            return
        pause(wait_s)


def new_lines(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the lines of a window that are not in the one before: all after the longest overlap.

    The end of the old window is the beginning of the new one.
    """
    for length in range(min(len(before), len(now)), 0, -1):
        if before[len(before) - length] == now[0] and [*before[-length:]] == [*now[:length]]:
            return list(now[length:])
    return list(now)


def shown_line(line: str) -> str:
    """Return a line for a terminal: JSON of a logger as time, level and message, no escapes."""
    start = line.find("{")
    entry = _entry(line[start:]) if 0 <= start <= 64 else None
    if entry is None:
        return printable(line)
    text = f"{_clock(str(entry['timestamp']))} {entry['level']!s:<7} {entry.get('message', '')}"
    rest = {
        key: value
        for key, value in entry.items()
        if key not in {"timestamp", "level", "message", "exception"} and value is not None
    }
    if rest:
        text += f"  {json.dumps(rest, ensure_ascii=False, default=str)}"
    exception = entry.get("exception")
    if isinstance(exception, str) and exception:
        text += "".join(f"\n    {part}" for part in exception.rstrip().splitlines())
    return "\n".join(printable(part) for part in text.splitlines())


def _entry(text: str) -> dict[str, object] | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_log = isinstance(entry, dict) and {"timestamp", "level"} <= entry.keys()
    return entry if is_log else None


def _clock(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).strftime("%H:%M:%S")
    except ValueError:
        return timestamp
