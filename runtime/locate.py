"""Where a run is, found by its id: in live indexes, by its stack's settings, by its record.

Read by the CLI; runs no `pulumi`. A run can be found after its stack is gone, as long as its run
directory (local) or the ConfigMap of its record (kubernetes) is there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import homes, naming
from runtime.artifacts import RunDirectory, runs_folder
from runtime.cluster import KubernetesConnection
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.control.stacks import Project, read_settings
from runtime.errors import NotFoundError, PaddockError, SettingsError, StackError
from runtime.local_state import LocalRun, read_index
from runtime.record import read_record
from runtime.stack_settings import bad_run_id

if TYPE_CHECKING:
    from runtime.cluster_runs import ClusterRun

_NAMESPACE = str(KubernetesClusterSettings.model_fields["namespace"].default)


def locate_run(project: Project, run_id: str) -> "LocalRun | ClusterRun":
    """Return where a run is, at its newest attempt.

    Raises SettingsError for what is no run id, NotFoundError where there is no such run, and
    UnreachableError where the cluster that its settings name does not answer.
    """
    if not naming.is_run_id(run_id):
        raise SettingsError([bad_run_id(run_id)], source="run")
    connection = run_connection(project, run_id)
    unasked: list[str] = []
    found = (
        _live_here(project, run_id)
        or (_on_cluster(connection, run_id) if connection is not None else None)
        or _recorded_here(project, run_id)
        or _on_any_cluster(project, run_id, unasked)
    )
    if found is None:
        raise NotFoundError(_nowhere(project, run_id, connection, unasked))
    return found


def run_connection(project: Project, run_id: str) -> KubernetesConnection | None:
    """Return the cluster that a run's settings place it on, None for the local target or none."""
    cluster = _settings(project, run_id).get("cluster")
    return _connection(_settings(project, str(cluster))) if cluster else None


def cluster_connection(project: Project, cluster: str) -> KubernetesConnection:
    """Return how a cluster stack's settings reach it; raises NotFoundError where it is none."""
    found = _connection(read_settings(project, cluster))
    if found is None:
        raise NotFoundError(f"{cluster} is no cluster stack of target kubernetes")
    return found


def state_paths(project: Project) -> list[Path]:
    """Return the state directories of the local clusters that this user or project has."""
    folder = homes.home_path() / "clusters"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    for settings in _all_settings(project):
        if settings.get("kind") == "cluster" and settings.get("statePath"):
            found.append(project.path / str(settings["statePath"]))
    return [path for path in dict.fromkeys(found) if path.is_dir()]


def _live_here(project: Project, run_id: str) -> LocalRun | None:
    for state_path in state_paths(project):
        entry = read_index(state_path, run_id)
        if entry is not None:
            return LocalRun(
                state_path=state_path,
                run_path=Path(entry.run_path),
                run_id=run_id,
                attempt=entry.attempt,
            )
    return None


def _recorded_here(project: Project, run_id: str) -> LocalRun | None:
    for state_path, run_path in _candidates(project, run_id):
        record = read_record(RunDirectory(run_path).record)
        if record is not None:
            return LocalRun(
                state_path=state_path, run_path=run_path, run_id=run_id, attempt=record.attempt
            )
    return None


def _on_cluster(connection: KubernetesConnection, run_id: str) -> "ClusterRun | None":
    from runtime.cluster_runs import find_run  # loads httpx, which the local target can do without

    return find_run(connection, run_id)


def _on_any_cluster(project: Project, run_id: str, unasked: list[str]) -> "ClusterRun | None":
    """Return the run of the first cluster with its record; notes those that do not answer."""
    for connection in _connections(project):
        try:
            found = _on_cluster(connection, run_id)
        except PaddockError as error:
            unasked.append(f"{connection.context}: {error}")
            continue
        if found is not None:
            return found
    return None


def _nowhere(
    project: Project, run_id: str, connection: KubernetesConnection | None, unasked: list[str]
) -> str:
    where = f"in a run directory of {project.path}"
    if connection is not None:
        where = f"in namespace {connection.namespace} of context {connection.context}"
    words = (
        f"no run {run_id}: neither live on this machine, nor with a record {where}: "
        f"`pulumi up -s {run_id}` starts it"
    )
    return "\n".join([words, *(f"  not asked: {one}" for one in unasked)])


def _connections(project: Project) -> Iterator[KubernetesConnection]:
    seen: set[tuple[str, str]] = set()
    for settings in _all_settings(project):
        found = _connection(settings)
        if found is not None and (found.context, found.namespace) not in seen:
            seen.add((found.context, found.namespace))
            yield found


def _connection(settings: dict[str, Any]) -> KubernetesConnection | None:
    is_cluster = settings.get("kind") == "cluster" and settings.get("target") == "kubernetes"
    if not is_cluster or not settings.get("context"):
        return None
    namespace = str(settings.get("namespace") or _NAMESPACE)
    return KubernetesConnection(context=str(settings["context"]), namespace=namespace)


def _candidates(project: Project, run_id: str) -> Iterator[tuple[Path, Path]]:
    """Yield (state directory, run directory) pairs where the run's record may be."""
    settings = _settings(project, run_id)
    cluster = str(settings.get("cluster", "local"))
    described = _settings(project, cluster)
    state_path = homes.state_path(cluster)
    if described.get("statePath"):
        state_path = project.path / str(described["statePath"])
    if settings.get("volume"):
        volume = str(settings["volume"])
        path = _settings(project, volume).get("path") or f"volumes/{volume}"
        yield state_path, runs_folder((project.path / str(path)).resolve()) / run_id
    runs = runs_folder(project.path)
    yield state_path, (project.path / str(described.get("runsPath", runs))).resolve() / run_id
    yield state_path, runs / run_id


def _settings(project: Project, stack: str) -> dict[str, Any]:
    try:
        return read_settings(project, stack)
    except (NotFoundError, StackError):
        return {}


def _all_settings(project: Project) -> Iterator[dict[str, Any]]:
    for path in sorted((project.path / "stacks").glob("Pulumi.*.yaml")):
        yield _settings(project, path.name.removeprefix("Pulumi.").removesuffix(".yaml"))
