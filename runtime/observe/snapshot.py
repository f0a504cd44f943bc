"""Snapshot: what exists right now on a cluster, for admission to judge a plan by."""

import contextlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import models
from runtime.artifacts import RunDirectory, runs_folder
from runtime.checkpoints import checkpoint_steps
from runtime.cluster import ClusterProfile, KubernetesConnection, LocalConnection
from runtime.errors import PaddockError
from runtime.launch.local import TASKSETS
from runtime.plan import RunPlan
from runtime.resume_from import parse_resume_from
from runtime.situation import Snapshot

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi


def take_snapshot(
    plan: RunPlan,
    profile: ClusterProfile,
    *,
    volume_path: str | None = None,
    requested_environments: Iterable[str] = (),
    secret_names: frozenset[str] | None = None,
) -> Snapshot:
    """Return the snapshot that a plan is admitted on; the run's own slots count as free.

    Of a cluster of nodes it counts every GPU as free: `with_live_gpus` looks which are. The cluster
    is asked for its models where its profile, as old as the stack's last `up`, lacks the plan's.
    """
    known = known_snapshot(
        plan,
        profile,
        volume_path=volume_path,
        requested_environments=requested_environments,
        secret_names=secret_names,
    )
    if not needs_model_list(known, plan, profile):
        return known
    from runtime.kubernetes_models import cached_models

    try:
        with _open_api(profile) as api:
            return with_model_list(known, plan, cached_models(api))
    except PaddockError as error:
        return with_model_list(known, plan, (), unread=str(error))


def known_snapshot(
    plan: RunPlan,
    profile: ClusterProfile,
    *,
    volume_path: str | None = None,
    requested_environments: Iterable[str] = (),
    secret_names: frozenset[str] | None = None,
) -> Snapshot:
    """Return the snapshot of what a profile and this machine tell; no cluster is asked."""
    connection = profile.connection
    if isinstance(connection, LocalConnection):
        found = models.find_model(plan.model, connection.cache_path, volume_path=volume_path)
        model, tasksets = str(found) if found else None, installed_tasksets()
        first_steps = _first_steps(plan, profile, volume_path)
        num_free = _num_free(plan, profile, connection)
    else:
        has_volume = volume_path is not None or plan.volume is not None  # pods will mount it
        on_volume = has_volume and f"{plan.model}/".startswith("/volume/")
        model = plan.model if on_volume or plan.model in profile.models else None
        tasksets = frozenset(profile.environments)
        first_steps = None  # `prepare` says so in the cluster
        num_free = {offer.name: offer.num_gpus for offer in profile.gpus}
    return Snapshot(
        model_path=model,
        tasksets=tasksets,
        num_free_gpus=num_free,
        requested_environments=tuple(requested_environments),
        secret_names=secret_names,
        first_steps=first_steps,
    )


def needs_model_list(snapshot: Snapshot, plan: RunPlan, profile: ClusterProfile) -> bool:
    """Tell whether only a cluster's own list of models can say whether it has the plan's."""
    has_list = profile.kubernetes is not None and profile.kubernetes.models_claim is not None
    return has_list and snapshot.model_path is None and not plan.model.startswith("/")


def with_model_list(
    snapshot: Snapshot, plan: RunPlan, names: Container[str], *, unread: str = ""
) -> Snapshot:
    """Return the snapshot with the plan's model looked up in a cluster's own list.

    `unread` says why the list is not that of now: then what is not in it may be there.
    """
    if plan.model in names:
        return replace(snapshot, model_path=plan.model)
    return replace(snapshot, models_unread=unread)


def with_live_gpus(snapshot: Snapshot, plan: RunPlan, profile: ClusterProfile) -> Snapshot:
    """Return the snapshot with the GPUs that are free right now on a cluster of nodes.

    Pods of the run itself do not count. The snapshot stays as it is where the cluster does not
    answer or may not be looked at: this is for a notice, never for a refusal.
    """
    if isinstance(profile.connection, LocalConnection):
        return snapshot
    from runtime.observe.kubernetes.headroom import free_by_type, read_headroom

    offer = profile.kubernetes
    tolerations = offer.tolerations if offer is not None else ()
    with contextlib.suppress(PaddockError), _open_api(profile) as api:
        rooms = read_headroom(api, tolerations=tolerations, ignored_run=plan.run_id)
        free = {one.name: 0 for one in profile.gpus} | free_by_type(rooms)
        return replace(snapshot, num_free_gpus=free)
    return snapshot


def installed_tasksets() -> frozenset[str]:
    """Return the taskset ids that the embedded engine carries."""
    folders = (entry for entry in TASKSETS.iterdir() if (entry / "__init__.py").exists())
    return frozenset(folder.name.replace("_", "-") for folder in folders) - {"inproc-null"}


def _first_steps(
    plan: RunPlan, profile: ClusterProfile, volume_path: str | None
) -> tuple[int, ...] | None:
    """Return the checkpoints of the run that this one starts with; None with one of its own."""
    folder = runs_folder(Path(volume_path)) if volume_path else Path(profile.runs_path)
    own = RunDirectory(folder / plan.run_id).checkpoints
    if plan.resume_from is None or checkpoint_steps(own):
        return None
    other = RunDirectory(folder / parse_resume_from(plan.resume_from).run_id)
    return tuple(checkpoint_steps(other.checkpoints))


def _num_free(
    plan: RunPlan, profile: ClusterProfile, connection: LocalConnection
) -> dict[str, int]:
    from runtime.local_state import LocalRun  # late: an `up` on a cluster does without
    from runtime.supervisor_client import capacity

    run = LocalRun(
        state_path=Path(connection.state_path),
        run_path=Path(profile.runs_path) / plan.run_id,
        run_id=plan.run_id,
        attempt=plan.attempt,
    )
    free = capacity(run).num_free
    return {offer.name: free for offer in profile.gpus}


@contextlib.contextmanager
def _open_api(profile: ClusterProfile) -> "Iterator[KubernetesApi]":
    from runtime.kubernetes_api import KubernetesApi

    assert isinstance(profile.connection, KubernetesConnection), "a cluster of nodes"
    with contextlib.closing(KubernetesApi.connect(profile.connection)) as api:
        yield api
