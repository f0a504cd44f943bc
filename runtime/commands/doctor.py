"""`paddock doctor`: what a cluster lacks for runs, and how to mend it; changes nothing.

Reads the stack's settings, so that it helps before the first `pulumi up` of the cluster as well.
"""

import shutil
import sys
from contextlib import closing
from typing import Annotated

import typer
from rich.table import Table

from runtime import limits
from runtime.cluster import KubernetesConnection
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.commands.session import Output, OutputOption, console, open_project, print_json
from runtime.control import stacks
from runtime.errors import SettingsError
from runtime.kubernetes_checks import (
    Check,
    Probes,
    Verdict,
    cluster_checks,
    is_fit,
    unreachable_check,
)
from runtime.stack_settings import parse_settings

_MARKS = {Verdict.OK: "ok", Verdict.WARNING: "warn", Verdict.ABSENT: "-", Verdict.MISSING: "FAIL"}


def doctor(
    cluster: Annotated[str, typer.Option(help="cluster stack")],
    output: OutputOption = Output.TEXT,
) -> None:
    """Check what a cluster needs for runs; exit 1 when something required is missing."""
    project = open_project()
    body = parse_settings(stacks.read_settings(project, cluster), stack=cluster)
    if not isinstance(body, KubernetesClusterSettings):
        kind = f"cluster of target {body.target}" if body.kind == "cluster" else body.kind
        console().print(f"{cluster} is a {kind}: there is nothing to check but on Kubernetes")
        return
    has_plugin = shutil.which(
        "pulumi-resource-kubernetes", path=project.environment.get("PATH", "")
    )
    checks = examine(cluster, body, has_plugin=has_plugin is not None)
    if output is Output.JSON:
        rows = [
            {
                "name": check.name,
                "verdict": check.verdict.value,
                "detail": check.detail,
                "mend": check.mend,
            }
            for check in checks
        ]
        print_json({"cluster": cluster, "fit": is_fit(checks), "checks": rows})
    else:
        _print(checks)
    if not is_fit(checks):
        sys.exit(1)


def examine(
    stack: str, settings: KubernetesClusterSettings, *, has_plugin: bool
) -> tuple[Check, ...]:
    """Return the checks of a cluster, from its settings and what it answers."""
    from runtime.kubernetes_api import KubernetesApi, UnreachableError
    from runtime.kubernetes_discovery import discover
    from runtime.kubernetes_probes import (
        files_answer,
        image_notice,
        missing_access,
        num_cached_models,
    )
    from runtime.kubernetes_profile import wanted

    connection = KubernetesConnection(context=settings.context, namespace=settings.namespace)
    try:
        with closing(KubernetesApi.connect(connection)) as api:
            found = discover(api, wanted(settings))
            num_models, models_trouble = num_cached_models(api)
            probes = Probes(
                stack=stack,
                missing_access=missing_access(api, found, settings),
                files=files_answer(api),
                num_models=num_models,
                models_trouble=models_trouble,
                image_notice=image_notice(api, settings, tag=limits.DEFAULT_IMAGE_TAG),
                has_plugin=has_plugin,
            )
    except (UnreachableError, SettingsError) as error:  # no server, or no such context
        return (unreachable_check(settings, str(error)),)
    return cluster_checks(settings, found, probes)


def _print(checks: tuple[Check, ...]) -> None:
    table = Table("Check", "", "Found", box=None)
    for check in checks:
        table.add_row(check.name, _MARKS[check.verdict], check.detail)
    out = console()
    out.print(table)
    mends = [check for check in checks if check.mend]
    for check in mends:
        out.print(f"{check.name}: {check.mend}")
    num_missing = sum(check.verdict is Verdict.MISSING for check in checks)
    out.print("Runs can be placed." if not num_missing else f"{num_missing} required missing.")
