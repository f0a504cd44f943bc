"""Snapshot: what exists right now on a cluster, for admission to judge a plan by."""

from pathlib import Path

from runtime import models
from runtime.admission import Snapshot
from runtime.cluster import ClusterProfile, LocalConnection
from runtime.local_state import LocalRun
from runtime.plan import RunPlan
from runtime.supervisor_client import capacity

TASKSETS = Path(__file__).resolve().parent.parent / "rl" / "tasksets"


def take_snapshot(
    plan: RunPlan, profile: ClusterProfile, *, volume_path: str | None = None
) -> Snapshot:
    """Return the snapshot that a plan is admitted on; the run's own slots count as free."""
    connection = profile.connection
    assert isinstance(connection, LocalConnection), "the only target with a snapshot yet"
    model = models.find_model(plan.model, connection.cache_path, volume_path=volume_path)
    run = LocalRun(
        state_path=Path(connection.state_path),
        run_path=Path(profile.runs_path) / plan.run_id,
        run_id=plan.run_id,
        attempt=plan.attempt,
    )
    free = capacity(run).num_free
    return Snapshot(
        model_path=str(model) if model else None,
        tasksets=installed_tasksets(),
        num_free_gpus={offer.name: free for offer in profile.gpus},
    )


def installed_tasksets() -> frozenset[str]:
    """Return the taskset ids that the embedded engine carries."""
    folders = (entry for entry in TASKSETS.iterdir() if (entry / "__init__.py").exists())
    return frozenset(folder.name.replace("_", "-") for folder in folders) - {"inproc-null"}
