"""`paddock reconcile`: what a server does for runs without its API, or one cluster's observer.

Without a cluster it is the loop of `paddock serve`, for runs by GitOps and by hand. With one it
needs neither database nor stacks and only writes records; several copies of that do no harm.
"""

import logging
import os
import threading
from contextlib import closing
from functools import partial
from typing import Annotated

import typer

from runtime.cluster import KubernetesConnection
from runtime.commands.admin.database import DatabaseOption, opened
from runtime.commands.interrupts import end_by_interrupt, note_interrupt
from runtime.commands.serve import (
    DrainOption,
    EndOperationsOption,
    WorkersOption,
    ending,
    write_log_as_json,
)
from runtime.commands.session import find_project, offline_project, say
from runtime.control.operations import DRAIN_S, OperatorLimits
from runtime.entry import INTERRUPTED
from runtime.errors import Problem, SettingsError
from runtime.locate import cluster_connection
from runtime.observe.kubernetes.observer import LOOK_S

_log = logging.getLogger(__name__)

_ONCE_S = 60.0


def reconcile(
    cluster: Annotated[
        str | None, typer.Option(help="only observe the runs of this cluster stack")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="kubeconfig context instead; in a pod: in-cluster")
    ] = None,
    namespace: Annotated[str, typer.Option(help="namespace of the runs, with --context")] = (
        "paddock"
    ),
    database: DatabaseOption = None,
    workers: WorkersOption = 4,
    drain: DrainOption = DRAIN_S,
    end_operations: EndOperationsOption = False,
    once: Annotated[bool, typer.Option("--once", help="one round, then end")] = False,
    interval: Annotated[
        float, typer.Option(min=0.5, help="seconds between looks, with --cluster or --context")
    ] = LOOK_S,
) -> None:
    """Bring runs to their ends and tear them down, without an API, until it is ended.

    With --cluster or --context it only writes what becomes of that cluster's runs.
    """
    if cluster is None and context is None:
        limits = OperatorLimits(num_workers=workers, drain_s=drain, ends_operations=end_operations)
        note_interrupt(partial(_drive, database, limits, once=once))
    elif database is not None:
        message = "excludes --cluster and --context, which observe without a database"
        raise SettingsError([Problem(loc=("database",), message=message)], source="reconcile")
    else:
        connection = _connection(cluster, context, namespace)
        if once:
            end_by_interrupt(lambda: _observe(connection, interval))
        else:
            note_interrupt(partial(_observe, connection, interval))


def _drive(
    database: str | None, limits: OperatorLimits, ended: threading.Event, *, once: bool
) -> None:
    """Do what a server does for the runs of its clusters."""
    write_log_as_json()
    with opened(database) as store:
        from runtime.control.assembly import reconcile_once, running

        where = {"checkout": find_project(), "environ": os.environ}
        if once:
            found = reconcile_once(store, **where, limits=limits, is_over=ended)
            say(f"{found.num_runs} runs were looked at")
            if not found.is_done:
                say("ended early: the next round goes on")
                raise typer.Exit(INTERRUPTED)
            for orphan in found.orphans:
                say(f"left behind: {orphan}")
            return
        with running(store, **where, limits=limits):
            _log.info("paddock reconciles the runs of %s", store.name)
            ended.wait()
            _log.info(ending(limits))


def _observe(
    connection: KubernetesConnection, interval_s: float, ended: threading.Event | None = None
) -> None:
    """Write what becomes of a cluster's runs until it is ended; without an end, once.

    Reports, and only reports, what runs left behind.
    """
    from runtime.kubernetes_api import KubernetesApi
    from runtime.observe.kubernetes.observer import RunObserver
    from runtime.observe.kubernetes.orphans import find_orphans
    from runtime.observe.kubernetes.reconciler import Reconciler
    from runtime.observe.kubernetes.run_files import RunFiles
    from runtime.observe.kubernetes.watch import open_watch

    with closing(KubernetesApi.connect(connection)) as api, open_watch(api) as watch:
        observer = RunObserver(api, watch, RunFiles(api))
        reconciler = Reconciler(watch, observer, say)
        if ended is None:
            number = reconciler.run_once(timeout_s=_ONCE_S)
            say(f"{number} open runs were looked at")
            for orphan in find_orphans(api):
                say(str(orphan))
        else:
            say(f"observing the runs of namespace {connection.namespace}")
            reconciler.run(interval_s=interval_s, is_over=ended.is_set)


def _connection(cluster: str | None, context: str | None, namespace: str) -> KubernetesConnection:
    if cluster is not None and context is not None:
        raise SettingsError([Problem(message="--cluster and --context exclude each other")])
    if cluster is not None:
        return cluster_connection(offline_project(), cluster)
    return KubernetesConnection(context=str(context), namespace=namespace)
