"""`paddock train models|gpus`: what can be had of a server."""

import typer

from runtime.commands.remote.connection import ServerOption, connected, print_rows
from runtime.commands.session import Output, OutputOption, console, print_json


def models(server: ServerOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the models that start warm, and the GPU types with their prices."""
    with connected(server) as api:
        from runtime.client import catalog

        found = catalog.list_models(api)
    if output is Output.JSON:
        shown = found.model_dump(mode="json")
        print_json({"available_fft_models": shown["models"], "on_demand": shown["on_demand"]})
        return
    if not found.models and not found.on_demand:
        typer.echo("No models and no GPU types are offered.")
    if found.models:
        console().print("Models")
        rows = [
            [model.name, ", ".join(sorted({one.gpu_type or "" for one in model.clusters} - {""}))]
            for model in found.models
        ]
        print_rows(["MODEL", "GPU TYPE(S)"], rows)
    if found.on_demand:
        console().print("\nOn-Demand Capacity" if found.models else "On-Demand Capacity")
        rows = [
            [
                offer.gpu_type,
                f"{offer.price_per_gpu_hour:.2f}",
                "available" if offer.available_now else "busy",
            ]
            for offer in found.on_demand
        ]
        print_rows(["GPU TYPE", "$/GPU-HOUR", "CAPACITY"], rows)


def gpus(server: ServerOption = None, output: OutputOption = Output.TEXT) -> None:
    """List every GPU type that a run can be dispatched on."""
    with connected(server) as api:
        from runtime.client import catalog

        found = catalog.list_gpu_types(api)
    if output is Output.JSON:
        print_json({"gpuTypes": found})
        return
    for name in found:
        typer.echo(name)
    if not found:
        typer.echo("No GPU types are offered.")
