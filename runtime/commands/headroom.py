"""`paddock gpus`: the GPU types that a run can name, and what of them a cluster has free now."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from runtime import gpus, homes
from runtime.cluster import KubernetesConnection
from runtime.cluster_settings import KubernetesClusterSettings, LocalClusterSettings
from runtime.commands.session import Output, OutputOption, console, offline_project, print_json
from runtime.control.stacks import Project, read_settings
from runtime.errors import NotFoundError
from runtime.local_state import LocalRun
from runtime.stack_settings import parse_settings


def list_gpus(
    cluster: Annotated[
        str | None, typer.Option(help="cluster stack: what it has, and what is free")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the GPU types that a run can name, or those of a cluster with what is free."""
    if cluster is not None:
        _list_headroom(offline_project(), cluster, output)
        return
    rows = [gpu for gpu in gpus.GPU_TYPES.values() if gpu.memory_gib]
    if output is Output.JSON:
        print_json([{"name": gpu.name, "price": gpu.price_usd_per_hour} for gpu in rows])
        return
    table = Table("GPU type", "Memory", "$/GPU-hour", box=None)
    for gpu in rows:
        table.add_row(gpu.name, f"{gpu.memory_gib} GiB", f"{gpu.price_usd_per_hour:.2f}")
    console().print(table)


def _list_headroom(project: Project, cluster: str, output: Output) -> None:
    settings = parse_settings(read_settings(project, cluster), stack=cluster)
    if isinstance(settings, KubernetesClusterSettings):
        nodes = _cluster_nodes(settings)
    elif isinstance(settings, LocalClusterSettings):
        nodes = _local_nodes(project, cluster, settings)
    else:
        raise NotFoundError(f"--cluster {cluster}: a stack of kind {settings.kind}")
    types = _by_type(nodes)
    if output is Output.JSON:
        print_json({"cluster": cluster, "types": types, "nodes": nodes})
        return
    table = Table("GPU type", "Free", "Total", "Nodes", box=None)
    for row in types:
        table.add_row(row["name"], *(str(row[key]) for key in ("free", "total", "nodes")))
    console().print(table)
    for node in nodes:
        if node["barrier"]:
            console().print(f"{node['node']}: takes no runs ({node['barrier']})")


def _cluster_nodes(settings: KubernetesClusterSettings) -> list[dict[str, Any]]:
    from runtime.cluster_runs import open_api  # loads httpx, which local clusters do without
    from runtime.observe.kubernetes.headroom import read_headroom

    connection = KubernetesConnection(context=settings.context, namespace=settings.namespace)
    with open_api(connection) as api:
        rooms = read_headroom(api, tolerations=settings.tolerations)
    return [
        {
            "node": room.node,
            "type": room.gpu_type,
            "total": room.num_gpus,
            "free": room.num_free,
            "barrier": room.barrier,
        }
        for room in rooms
    ]


def _local_nodes(
    project: Project, cluster: str, settings: LocalClusterSettings
) -> list[dict[str, Any]]:
    from runtime.observe.devices import find_devices, local_offers
    from runtime.supervisor_client import capacity

    state_path = homes.state_path(cluster)
    if settings.state_path is not None:
        state_path = project.path / settings.state_path
    slots = capacity(LocalRun(state_path=state_path, run_path=Path(), run_id="", attempt=1))
    devices = find_devices(num_cpu_slots=settings.slots)
    offers = local_offers(devices, price_usd_per_hour=settings.price_usd_per_hour)
    room = {"node": "this machine", "type": offers[0].name, "barrier": ""}
    return [{**room, "total": slots.num_slots, "free": slots.num_free}]


def _by_type(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        row = found.setdefault(
            node["type"], {"name": node["type"], "free": 0, "total": 0, "nodes": 0}
        )
        row["free"] += node["free"]
        row["total"] += node["total"]
        row["nodes"] += 1
    return [found[name] for name in sorted(found)]
