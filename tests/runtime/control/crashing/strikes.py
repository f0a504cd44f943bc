"""Finds a round's victim and kills it with SIGKILL, at the moment that the round says."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from runtime.control.operations import OperationKind, OperationState
from runtime.control.projects import RunFolder, run_folder
from runtime.local_state import read_index
from runtime.observe.local import read_components
from runtime.processes import ProcessId, is_alive, send_signal, session_processes
from tests.engine.sites import Site
from tests.runtime.control.crashing.plane import Plane
from tests.runtime.control.crashing.rounds import Round, Victim

_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Strike:
    """What was killed; `operation` is the run's own that was under way."""

    words: str
    operation: OperationKind | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    process: ProcessId
    operation: OperationKind | None = None


def strike(plane: Plane, one: Round, run_id: str, is_over: Event) -> Strike | None:
    """Kill the victim of a round and tell of it; None where the run was over before."""
    folder = run_folder(run_id, plane.site.home)
    if one.victim is Victim.SERVER:
        is_over.wait(one.delay_s)
        under_way = _operation(folder)
        began = time.monotonic()
        pid = plane.kill()
        words = f"pid {pid}, the next one serves after {time.monotonic() - began:.1f} s"
        return Strike(words=words, operation=under_way[0] if under_way else None)
    seek = _seeker(plane.site, one, run_id)
    seen = _seek(seek, is_over)
    if seen is None:
        return None
    is_over.wait(one.delay_s)
    while (found := _seek(seek, is_over)) is not None:
        if is_alive(found.process):
            send_signal(found.process, signal.SIGKILL)
            where = f" in {found.operation}" if found.operation else ""
            return Strike(words=f"pid {found.process.pid}{where}", operation=found.operation)
    return None


def _seek(seek: Callable[[], _Found | None], is_over: Event) -> _Found | None:
    while (found := seek()) is None:
        if is_over.wait(_POLL_S):
            return None
    return found


def _seeker(site: Site, one: Round, run_id: str) -> Callable[[], _Found | None]:
    folder = run_folder(run_id, site.home)
    if one.victim is Victim.SUPERVISOR:
        return lambda: _supervisor(site, run_id)
    if one.victim in {Victim.WRAPPER, Victim.COMPONENT}:
        return lambda: _component(site, one, run_id)
    is_engine = one.victim is Victim.ENGINE
    order = list(OperationKind)
    earliest = order.index(one.operation)

    def worker() -> _Found | None:
        found = _operation(folder)
        if found is None or order.index(found[0]) < earliest:
            return None
        kind, process = found
        if is_engine:
            engines = [each for each in session_processes(process) if _is_engine(each)]
            return _Found(engines[0], kind) if engines else None
        return _Found(process, kind)

    return worker


def _operation(folder: RunFolder) -> tuple[OperationKind, ProcessId] | None:
    """Return the operation of a run that is under way, and its worker."""
    found = folder.read()
    if found is None or found.worker is None or found.report.state is not OperationState.RUNNING:
        return None
    return (found.report.kind, found.worker) if is_alive(found.worker) else None


def _supervisor(site: Site, run_id: str) -> _Found | None:
    entry = read_index(site.state, run_id)
    return _Found(entry.supervisor) if entry is not None and entry.supervisor else None


def _component(site: Site, one: Round, run_id: str) -> _Found | None:
    for found in read_components(site.local_run(run_id).directory, 1):
        process = found.wrapper if one.victim is Victim.WRAPPER else found.process
        if found.name == one.component and process is not None and is_alive(process):
            return _Found(process)
    return None


def _is_engine(process: ProcessId) -> bool:
    try:
        argv = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return os.path.basename(argv[0]) == "pulumi"
