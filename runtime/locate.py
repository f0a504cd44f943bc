"""Where a run is, found by its id: in live indexes, by its stack's settings, by its record.

Read by the CLI. A run can be found after its stack is gone, as long as its run directory is there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtime import homes, naming
from runtime.artifacts import RunDirectory, runs_folder
from runtime.control.stacks import Project, read_settings
from runtime.errors import NotFoundError, SettingsError, StackError
from runtime.local_state import LocalRun, read_index
from runtime.record import read_record
from runtime.stack_settings import bad_run_id


def locate_run(project: Project, run_id: str) -> LocalRun:
    """Return where a run of the local target is, at its newest attempt.

    Raises SettingsError for what is no run id, NotFoundError where there is no such run.
    """
    if not naming.is_run_id(run_id):
        raise SettingsError([bad_run_id(run_id)], source="run")
    for state_path in state_paths(project):
        entry = read_index(state_path, run_id)
        if entry is not None:
            return LocalRun(
                state_path=state_path,
                run_path=Path(entry.run_path),
                run_id=run_id,
                attempt=entry.attempt,
            )
    for state_path, run_path in _candidates(project, run_id):
        record = read_record(RunDirectory(run_path).record)
        if record is not None:
            return LocalRun(
                state_path=state_path, run_path=run_path, run_id=run_id, attempt=record.attempt
            )
    raise NotFoundError(
        f"no run {run_id}: neither live on this machine, nor with a record in a run directory of "
        f"{project.path}: `pulumi up -s {run_id}` starts it"
    )


def state_paths(project: Project) -> list[Path]:
    """Return the state directories of the local clusters that this user or project has."""
    folder = homes.home_path() / "clusters"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    for settings in _all_settings(project):
        if settings.get("kind") == "cluster" and settings.get("statePath"):
            found.append(project.path / str(settings["statePath"]))
    return [path for path in dict.fromkeys(found) if path.is_dir()]


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
