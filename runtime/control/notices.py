"""Notices: events that the people of a run are to see while it goes on.

Written by billing (a limit is near) and by the reconciler (something is in its way), shown by the
API and the dashboard. What was said at dispatch is in the journal from its first moment.
"""

from collections.abc import Sequence

from runtime.control.values import Event, StoredRun

NOTICE = "notice"
"""Kind of these events; what is said once has what it is about behind it: `notice-wallet`."""


def notice_kind(about: str) -> str:
    """Return the kind of the notices about one thing."""
    return f"{NOTICE}-{about}"


DISPATCH = "dispatch"
"""Kind of the events that say how a file is read here: for whoever dispatches it, no warning."""

WARNING = notice_kind(DISPATCH)
"""Kind of the warnings of admission: what may fail at start but refuses no run."""


def dispatch_notices(events: Sequence[Event]) -> tuple[str, ...]:
    """Return what was said of a run when it was dispatched, the warnings first."""
    return tuple(one.message for kind in (WARNING, DISPATCH) for one in events if one.kind == kind)


def newest_notice(run: StoredRun, events: Sequence[Event]) -> str:
    """Return the newest notice of a run's current attempt, empty for a run that is over."""
    found = [
        one for one in events if one.attempt == run.attempt and one.kind.partition("-")[0] == NOTICE
    ]
    if not found or run.is_over:
        return ""
    if found[-1].kind != WARNING:
        return found[-1].message
    return "; ".join(one.message for one in found if one.kind == WARNING)
