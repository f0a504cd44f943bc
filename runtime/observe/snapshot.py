"""Snapshot: what exists right now on a cluster, for admission to judge a plan by."""

from collections.abc import Iterable
from pathlib import Path

from runtime import models
from runtime.cluster import ClusterProfile, LocalConnection
from runtime.launch.local import TASKSETS
from runtime.local_state import LocalRun
from runtime.plan import RunPlan
from runtime.situation import Snapshot
from runtime.supervisor_client import capacity


def take_snapshot(
    plan: RunPlan,
    profile: ClusterProfile,
    *,
    volume_path: str | None = None,
    requested_environments: Iterable[str] = (),
    secret_names: frozenset[str] | None = None,
) -> Snapshot:
    """Return the snapshot that a plan is admitted on; the run's own slots count as free.

    That of a cluster of nodes is its profile: what is free there is known when pods are queued.
    """
    connection = profile.connection
    if isinstance(connection, LocalConnection):
        found = models.find_model(plan.model, connection.cache_path, volume_path=volume_path)
        model, tasksets = str(found) if found else None, installed_tasksets()
        num_free = _num_free(plan, profile, connection)
    else:
        model = _model_of_profile(plan, profile, has_volume=volume_path is not None)
        tasksets = frozenset(profile.environments)
        num_free = {offer.name: offer.num_gpus for offer in profile.gpus}
    return Snapshot(
        model_path=model,
        tasksets=tasksets,
        num_free_gpus=num_free,
        requested_environments=tuple(requested_environments),
        secret_names=secret_names,
    )


def installed_tasksets() -> frozenset[str]:
    """Return the taskset ids that the embedded engine carries."""
    folders = (entry for entry in TASKSETS.iterdir() if (entry / "__init__.py").exists())
    return frozenset(folder.name.replace("_", "-") for folder in folders) - {"inproc-null"}


def _num_free(
    plan: RunPlan, profile: ClusterProfile, connection: LocalConnection
) -> dict[str, int]:
    run = LocalRun(
        state_path=Path(connection.state_path),
        run_path=Path(profile.runs_path) / plan.run_id,
        run_id=plan.run_id,
        attempt=plan.attempt,
    )
    free = capacity(run).num_free
    return {offer.name: free for offer in profile.gpus}


def _model_of_profile(plan: RunPlan, profile: ClusterProfile, *, has_volume: bool) -> str | None:
    """Return the model's name where it is cached or on the run's volume, which pods will mount."""
    on_volume = f"{plan.model}/".startswith("/volume/") and (has_volume or plan.volume is not None)
    return plan.model if on_volume or plan.model in profile.models else None
