"""Logs and components of a run: /rft/runs/{run_id}/logs, env-server-logs, env-servers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from runtime.control.auth import RunDep, ServicesDep, limit_logs
from runtime.control.requests import LogQuery
from runtime.control.services import Services
from runtime.control.values import StoredRun
from runtime.control.wire.logs import ENV_SERVER, EnvServerLogParams, LogParams, LogText
from runtime.control.wire.monitoring import ComponentList
from runtime.control.wire.texts import sound
from runtime.errors import NotFoundError, Problem, RefusedError
from runtime.states import RunState

router = APIRouter(prefix="/rft/runs/{run_id}", tags=["logs"])

_NOT_STARTED = {
    RunState.QUEUED: "Run is queued",
    RunState.PENDING: "Run is pending: it waits for a place",
    RunState.CREATING: "Run is starting",
    RunState.PULLING_IMAGE: "Run is starting: the image is being pulled",
}
"""By these words the client knows that it should come back."""


@router.get("/logs", dependencies=[Depends(limit_logs)])
def logs(run: RunDep, services: ServicesDep, params: Annotated[LogParams, Query()]) -> LogText:
    """Return the last log lines of a component that match."""
    if (params.env_name is None) == (params.component == ENV_SERVER):
        raise _refused("env_name goes with component env-server, and that needs it")
    return _read(services, run, params.to_query())


@router.get("/env-server-logs", dependencies=[Depends(limit_logs)])
def env_server_logs(
    run: RunDep, services: ServicesDep, params: Annotated[EnvServerLogParams, Query()]
) -> LogText:
    """Return the last log lines of one env server that match."""
    return _read(services, run, params.to_query())


@router.get("/env-servers")
def env_servers(run: RunDep, services: ServicesDep) -> ComponentList:
    """List the env servers of a run, and all its components."""
    return ComponentList.of(services.reads.components(run))


def _read(services: Services, run: StoredRun, query: LogQuery) -> LogText:
    try:
        page = services.reads.logs(run, query)
    except NotFoundError as error:
        # a name in it may hold "pending": as a 404 the client would wait for it three minutes
        raise _refused(str(error)) from None
    if not page.has_started and run.state in _NOT_STARTED:
        raise NotFoundError(f"{_NOT_STARTED[run.state]}; logs are not available yet")
    return LogText(logs=sound(page.text))


def _refused(message: str) -> RefusedError:
    return RefusedError([Problem(message=message)])
