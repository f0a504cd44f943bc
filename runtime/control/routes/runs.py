"""Runs: list, look, stop, restart, delete: /rft/runs."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from runtime.control.auth import Caller, CallerDep, RunDep, ServicesDep
from runtime.control.notices import newest_notice
from runtime.control.services import Services
from runtime.control.store.run_lists import RunFilter
from runtime.control.values import StoredRun
from runtime.control.wire.model import Empty
from runtime.control.wire.runs import RunAnswer, RunList, RunListParams, RunView
from runtime.states import RunState

router = APIRouter(prefix="/rft/runs", tags=["runs"])

_PAUSED_S = 25.0
"""How long a stop of a paused run, of which nothing runs, may take; `prime` waits for 30 s."""

_POLL_S = 0.2


@router.get("")
def list_runs(
    caller: CallerDep, services: ServicesDep, params: Annotated[RunListParams, Query()]
) -> RunList:
    """List runs, newest first: the caller's own and those of the caller's teams."""
    wanted = _wanted(caller, team_id=params.team_id, is_mine=params.mine)
    offset = (params.page - 1) * params.limit
    found = services.runs.page(wanted, offset=offset, limit=params.limit)
    names = services.runs.volume_names(found.runs)
    return RunList.of(found, names, page=params.page, limit=params.limit)


@router.get("/{run_id}")
def get_run(run: RunDep, services: ServicesDep) -> RunAnswer:
    """Show a run."""
    return _answer(run, services)


@router.put("/{run_id}/stop")
async def stop(run: RunDep, caller: CallerDep, services: ServicesDep) -> RunAnswer:
    """End a run; one that is over is shown as it is.

    A paused one is shown once it is STOPPED: `prime` takes PAUSED for an end of the run's own.
    """
    user, run_id = caller.user, run.run_id
    deadline = time.monotonic() + _PAUSED_S  # of the whole answer: the intent may take a while
    stopped = await run_in_threadpool(services.intents.stop, user, run_id)
    while stopped.state is RunState.PAUSED and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)  # holds no thread of the others' requests
        found = await run_in_threadpool(services.runs.find, user, run_id)
        if found is None:
            break  # somebody had it deleted, and that is done
        stopped = found
    return await run_in_threadpool(_answer, stopped, services)


@router.put("/{run_id}/restart")
def restart(run: RunDep, caller: CallerDep, services: ServicesDep) -> RunAnswer:
    """End a running run and go on from its last checkpoint."""
    caller.check_may_continue(run)
    return _answer(services.intents.restart(caller.user, run.run_id), services)


@router.delete("/{run_id}")
def delete(run: RunDep, caller: CallerDep, services: ServicesDep) -> Empty:
    """End a run if it lives, and forget it."""
    services.intents.delete(caller.user, run.run_id)
    return Empty()


def _wanted(caller: Caller, *, team_id: str | None, is_mine: bool) -> RunFilter:
    """Return whose runs are listed. Raises ForbiddenError for a team of others."""
    if team_id is not None and not caller.user.is_admin:
        team_id = caller.team_for(team_id)
    return RunFilter(
        visible_to=caller.user,
        user_id=caller.user.user_id if is_mine else None,
        team_id=team_id,
    )


def _answer(run: StoredRun, services: Services) -> RunAnswer:
    notice = newest_notice(run, services.runs.events(run))
    num_ahead = services.runs.num_ahead(run)
    names = services.runs.volume_names([run])
    return RunAnswer(run=RunView.of(run, names, num_ahead=num_ahead, notice=notice))
