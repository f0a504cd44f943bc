"""Notices: events that the people of a run are to see while it goes on.

Written by billing (a limit is near) and by the reconciler (something is in its way), shown by the
API and the dashboard.
"""

from collections.abc import Sequence

from runtime.control.values import Event, StoredRun

NOTICE = "notice"
"""Kind of these events; what is said once has what it is about behind it: `notice-wallet`."""


def notice_kind(about: str) -> str:
    """Return the kind of the notices about one thing."""
    return f"{NOTICE}-{about}"


def newest_notice(run: StoredRun, events: Sequence[Event]) -> str:
    """Return the newest notice of a run's current attempt, empty for a run that is over."""
    found = [
        one.message
        for one in events
        if one.attempt == run.attempt and one.kind.partition("-")[0] == NOTICE
    ]
    return found[-1] if found and not run.is_over else ""
