"""Lists of runs: what a user may see, filtered, in pages, the newest first.

Visibility is one condition: an admin sees all, everybody else their own runs and those of the teams
that they are members of. A deleted run is in no list.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, true

from runtime.control.store.runs import get_run, read_runs
from runtime.control.store.tables import runs
from runtime.control.store.users import is_member, list_teams
from runtime.control.values import StoredRun, User
from runtime.states import TERMINAL_STATES, Capture, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilter:
    """Which runs a list holds; what is None does not restrict it."""

    visible_to: User | None = None
    """None is for the server's own loops only."""
    user_id: str | None = None
    team_id: str | None = None
    cluster: str | None = None
    states: frozenset[RunState] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """One page of a list, and how many runs the whole list has."""

    runs: tuple[StoredRun, ...]
    total: int


def list_runs(connection: Connection, wanted: RunFilter, *, limit: int, offset: int = 0) -> RunPage:
    """Return a page of the runs that a filter lets through, the newest first."""
    condition = _condition(connection, wanted)
    order = (runs.c.created_at.desc(), runs.c.run_id.desc())
    # the ids come from indexes alone: sorting whole rows would move every run's texts
    page = select(runs.c.run_id).where(condition).order_by(*order).limit(limit).offset(offset)
    found = read_runs(connection, runs.c.run_id.in_(connection.scalars(page).all()), *order)
    total = connection.execute(select(func.count()).where(condition)).scalar_one()
    return RunPage(runs=tuple(found), total=total)


def visible_run(connection: Connection, user: User, run_id: str) -> StoredRun | None:
    """Return a run that a user may see, None for one that is missing, deleted or another's."""
    run = get_run(connection, run_id)
    if run is None or run.deleted_at is not None:
        return None
    if user.is_admin or run.user_id == user.user_id:
        return run
    if run.team_id is not None and is_member(connection, run.team_id, user.user_id):
        return run
    return None


def live_runs(connection: Connection) -> list[StoredRun]:
    """Return the runs that still hold or want something, for the reconciler, the oldest first.

    These are all that are not over, and of those that are: the ones not torn down, not captured, or
    to be deleted. So the reconciler says teardown DONE of a run that never had a place, too.
    """
    return read_runs(connection, runs.c.is_live, runs.c.created_at, runs.c.run_id)


def uncaptured_runs(connection: Connection) -> list[StoredRun]:
    """Return the runs that are over and not captured whole, without those that are deleted."""
    is_ended = runs.c.state.in_(TERMINAL_STATES)
    is_it = and_(runs.c.deleted_at.is_(None), is_ended, runs.c.capture != Capture.DONE)
    return read_runs(connection, is_it, runs.c.created_at, runs.c.run_id)


def ended_run_ids(connection: Connection) -> list[str]:
    """Return the ids of all runs that are over, deleted ones included, the oldest first."""
    query = select(runs.c.run_id).where(runs.c.state.in_(TERMINAL_STATES))
    return list(connection.scalars(query.order_by(runs.c.created_at, runs.c.run_id)))


def num_by_state(connection: Connection) -> dict[RunState, int]:
    """Return how many runs of all users are in each state; a state without runs is not in it."""
    query = select(runs.c.state, func.count()).where(runs.c.deleted_at.is_(None))
    rows = connection.execute(query.group_by(runs.c.state))
    return {RunState(state): number for state, number in rows}


def _condition(connection: Connection, wanted: RunFilter) -> ColumnElement[bool]:
    parts: list[ColumnElement[bool]] = [runs.c.deleted_at.is_(None)]
    if wanted.visible_to is not None:
        parts.append(_is_visible(connection, wanted.visible_to))
    if wanted.user_id is not None:
        parts.append(runs.c.user_id == wanted.user_id)
    if wanted.team_id is not None:
        parts.append(runs.c.team_id == wanted.team_id)
    if wanted.cluster is not None:
        parts.append(runs.c.cluster == wanted.cluster)
    if wanted.states is not None:
        parts.append(runs.c.state.in_(wanted.states))
    return and_(*parts)


def _is_visible(connection: Connection, user: User) -> ColumnElement[bool]:
    if user.is_admin:
        return true()
    is_own = runs.c.user_id == user.user_id
    # the ids as values, not as a subquery: both planners then use the indexes on user and team
    own_teams = [team.team_id for team in list_teams(connection, user.user_id)]
    return or_(is_own, runs.c.team_id.in_(own_teams)) if own_teams else is_own
