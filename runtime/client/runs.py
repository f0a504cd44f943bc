"""Runs: list, look, end, and what they have measured, as requests of the API."""

import time
from collections.abc import Callable

from runtime.client.answers import Checkpoint, Components, Run, RunPage, Usage, read
from runtime.client.api import Api, Ask, Json, Query, path_of, rows
from runtime.client.errors import RateLimitedError, ServerError, UnreachableError

STOP_S = 180.0
"""How long a stop is waited for, as the `prime` client does."""

_POLL_S = 2.0
_RUNS = "/rft/runs"


def list_runs(api: Api, query: Query) -> RunPage:
    """Return a page of runs, newest first."""
    return read(RunPage, api.ask(Ask(path=_RUNS, query=query)))


def get_run(api: Api, run_id: str) -> Run:
    """Return a run."""
    return _run(api.ask(Ask(path=_path(run_id), source=run_id)))


def stop_run(
    api: Api, run_id: str, *, wait_s: float = STOP_S, pause: Callable[[float], None] = time.sleep
) -> Run:
    """End a run and return it when it is over, or as it is after `wait_s`; PAUSED is no end."""
    run = _run(api.ask(Ask(method="PUT", path=_path(run_id, "stop"), source=run_id)))
    deadline = time.monotonic() + wait_s
    while not run.is_over and time.monotonic() < deadline:
        pause(_POLL_S)
        try:
            run = get_run(api, run_id)
        except (UnreachableError, ServerError, RateLimitedError):
            continue  # the stop is taken; this was only a look
    return run


def restart_run(api: Api, run_id: str) -> Run:
    """End a running run and go on from its last checkpoint."""
    return _run(api.ask(Ask(method="PUT", path=_path(run_id, "restart"), source=run_id)))


def pause_run(api: Api, run_id: str) -> str:
    """Ask for a last checkpoint, after which the run's GPUs are free; return its state."""
    path = "/training/runs" + path_of(run_id, "pause")
    status = api.ask(Ask(method="POST", path=path, source=run_id)).get("status")
    if not isinstance(status, str):
        raise ServerError("the server's answer to a pause has no status")
    return status


def delete_run(api: Api, run_id: str) -> None:
    """End a run if it lives, and forget it."""
    api.ask(Ask(method="DELETE", path=_path(run_id), source=run_id))


def read_run(api: Api, run_id: str, what: str, query: Query) -> Json:
    """Return metrics, samples, progress or distributions as the server says them."""
    return api.ask(Ask(path=_path(run_id, what), query=query, source=run_id))


def list_checkpoints(api: Api, run_id: str, status: str | None) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run, or those of a status."""
    ask = Ask(path=_path(run_id, "checkpoints"), query={"status_filter": status}, source=run_id)
    return tuple(read(Checkpoint, row) for row in rows(api.ask(ask), "checkpoints"))


def list_components(api: Api, run_id: str) -> Components:
    """Return the components of a run."""
    return read(Components, api.ask(Ask(path=_path(run_id, "env-servers"), source=run_id)))


def get_usage(api: Api, run_id: str) -> Usage:
    """Return what a run has used and cost."""
    path = "/billing/runs" + path_of(run_id, "usage")
    return read(Usage, api.ask(Ask(path=path, source=run_id)))


def _run(body: Json) -> Run:
    return read(Run, body.get("run"))


def _path(*parts: str) -> str:
    return _RUNS + path_of(*parts)
