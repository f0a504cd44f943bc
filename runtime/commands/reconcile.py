"""`paddock reconcile`: observe all runs of a cluster, so that their records are right unattended.

Several copies do no harm. It also reports, and only reports, what runs left behind.
"""

import signal
import threading
from contextlib import closing
from typing import Annotated

import typer

from runtime.cluster import KubernetesConnection
from runtime.commands.session import offline_project, say
from runtime.errors import Problem, SettingsError
from runtime.kubernetes_api import KubernetesApi
from runtime.locate import cluster_connection
from runtime.observe.kubernetes.observer import LOOK_S, RunObserver
from runtime.observe.kubernetes.orphans import find_orphans
from runtime.observe.kubernetes.reconciler import Reconciler
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.kubernetes.watch import open_watch

_ONCE_S = 60.0


def reconcile(
    cluster: Annotated[str | None, typer.Option(help="cluster stack")] = None,
    context: Annotated[
        str | None, typer.Option(help="kubeconfig context instead; in a pod: in-cluster")
    ] = None,
    namespace: Annotated[str, typer.Option(help="namespace of the runs, with --context")] = (
        "paddock"
    ),
    once: Annotated[bool, typer.Option("--once", help="one round, then end")] = False,
    interval: Annotated[
        float, typer.Option(min=0.5, help="seconds between looks at rules that wait for a time")
    ] = LOOK_S,
) -> None:
    """Write what becomes of a cluster's runs until it is ended; several copies do no harm."""
    connection = _connection(cluster, context, namespace)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with closing(KubernetesApi.connect(connection)) as api, open_watch(api) as watch:
        observer = RunObserver(api, watch, RunFiles(api))
        reconciler = Reconciler(watch, observer, say)
        if once:
            number = reconciler.run_once(timeout_s=_ONCE_S)
            say(f"{number} open runs were looked at")
        else:
            say(f"observing the runs of namespace {connection.namespace}")
            reconciler.run(interval_s=interval, is_over=ended.is_set)
        for orphan in find_orphans(api) if once else ():
            say(str(orphan))


def _connection(cluster: str | None, context: str | None, namespace: str) -> KubernetesConnection:
    if (cluster is None) == (context is None):
        raise SettingsError([Problem(message="give --cluster, or --context with --namespace")])
    if cluster is not None:
        return cluster_connection(offline_project(), cluster)
    return KubernetesConnection(context=str(context), namespace=namespace)
