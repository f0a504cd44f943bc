"""Dispatch, pause and resume: /training/runs."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Header

from runtime.control.auth import (
    CallerDep,
    KeyedRoute,
    RunDep,
    ServicesDep,
    find_run,
    limit_dispatch,
    limit_prepare,
)
from runtime.control.errors_http import RUN_NOT_FOUND
from runtime.control.notices import dispatch_notices
from runtime.control.wire.dispatch import (
    CreateRunBody,
    DispatchedRun,
    PausedRun,
    PrepareBody,
    ResumeRunBody,
    check_mode,
    check_source_ref,
)
from runtime.errors import NotFoundError, Problem, RefusedError

router = APIRouter(prefix="/training/runs", tags=["training"], route_class=KeyedRoute)

_KEY = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@router.post("/prepare", dependencies=[Depends(limit_prepare)])
def prepare(body: PrepareBody, caller: CallerDep) -> None:
    """Send the client on: the server judges the file itself, at dispatch.

    The client takes a 404 as "the platform validates"; what is not served ends here, before it
    asks anything and makes a volume.
    """
    check_mode(body.mode)
    check_source_ref(body.source_ref)
    raise NotFoundError(
        "files are validated at dispatch; `paddock plan FILE` does it without dispatching"
    )


@router.post("", status_code=201, dependencies=[Depends(limit_dispatch)])
def create(
    body: CreateRunBody,
    caller: CallerDep,
    services: ServicesDep,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> DispatchedRun:
    """Dispatch a run; a config that is wrong is refused before anything is made."""
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        message = "Idempotency-Key: 1 to 128 letters, digits, dots, colons, dashes or underscores"
        raise RefusedError([Problem(message=message)])
    request = body.to_request(caller.team_for(body.team_id))
    source_id, _, _ = (request.resume_from or "").partition(":")
    if request.resume_from is not None and not find_run(source_id, caller, services):
        raise RefusedError([Problem(loc=("resumeFrom",), message=RUN_NOT_FOUND)])
    run = services.dispatcher.create(caller.user, request, idempotency_key)
    return DispatchedRun.of(run, dispatch_notices(services.runs.events(run)))


@router.post("/{run_id}/pause")
def pause(run: RunDep, caller: CallerDep, services: ServicesDep) -> PausedRun:
    """Checkpoint a run and let its GPUs go."""
    return PausedRun.of(services.intents.pause(caller.user, run.run_id))


@router.post("/{run_id}/resume", status_code=201, dependencies=[Depends(limit_dispatch)])
def resume(
    body: ResumeRunBody, run: RunDep, caller: CallerDep, services: ServicesDep
) -> DispatchedRun:
    """Go on from a run's last checkpoint."""
    caller.check_may_continue(run)
    resumed = services.intents.resume(caller.user, run.run_id, body.to_request())
    return DispatchedRun.of(resumed)
