"""CheckpointReturn: the checkpoint that a run starts with, back on its volume from the store.

`paddock runs prune` deletes directories of captured runs, their checkpoints with them. A run whose
`resumeFrom` names such a run finds the checkpoint where it was: from here on all is as if it had
never been away, and the next prune may delete it again. Called by the worker before an `up`, and
safe to call again where it was killed.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runtime.artifacts import RunDirectory, runs_folder
from runtime.checkpoints import checkpoint_steps
from runtime.cluster import ClusterProfile, KubernetesConnection, parse_profile
from runtime.control import stacks
from runtime.control.artifact_store import (
    ArtifactStore,
    ArtifactStoreError,
    artifacts_url,
    open_artifact_store,
)
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import Manifest, read_manifest
from runtime.control.run_capture.chosen_files import CHECKPOINTS_FOLDER
from runtime.control.run_source import SourceUnavailableError
from runtime.control.stacks import Project
from runtime.launch.volume_task import keep_checkpoint, partial_checkpoint, partial_file
from runtime.resume_from import ResumeFrom, parse_resume_from

_READ = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """A checkpoint to put back: of which run and step, what was captured of it, and for whom."""

    captured: CapturedSource
    step: int
    for_run: str

    @property
    def run_id(self) -> str:
        """Return the run that wrote it."""
        return self.captured.manifest.run_id

    def files(self) -> dict[str, str]:
        """Return the captured paths of its files by the paths within it."""
        prefix = f"{CHECKPOINTS_FOLDER}step_{self.step}/"
        paths = self.captured.manifest.files
        return {path.removeprefix(prefix): path for path in paths if path.startswith(prefix)}


class CheckpointPlace(Protocol):
    """The run directories of one volume."""

    def steps(self, run_id: str) -> list[int]:
        """Return the steps of a run's checkpoints, ascending."""
        ...

    def put(self, returned: Returned) -> None:
        """Put a checkpoint into the directory of its run, whole or not at all."""
        ...


def bring_first_checkpoint(
    project: Project, stack: str, environ: Mapping[str, str], on_line: Callable[[str], None]
) -> None:
    """Put back what the run of a stack starts with, where its volume has it no more.

    What is nowhere is left to the `up` to refuse. Raises PaddockError.
    """
    settings = stacks.read_settings(project, stack)
    if not settings.get("resumeFrom"):
        return
    wanted = parse_resume_from(str(settings["resumeFrom"]))
    place = _place(project, settings)
    store = open_artifact_store(artifacts_url(environ))
    try:
        step = return_checkpoint(stack, wanted, place, store) if place is not None else None
    except (ArtifactStoreError, SourceUnavailableError) as error:
        raise ArtifactStoreError(
            f"the checkpoint of {wanted.run_id} is temporarily unavailable: {error}"
        ) from None
    if step is not None:
        on_line(f"step {step} of {wanted.run_id} is back from {store.url(wanted.run_id)}")


def return_checkpoint(
    run_id: str, wanted: ResumeFrom, place: CheckpointPlace, store: ArtifactStore
) -> int | None:
    """Put a checkpoint back and return its step; None where that need not or cannot be."""
    there = place.steps(wanted.run_id)
    if place.steps(run_id) or wanted.step in there or (wanted.step is None and there):
        return None
    manifest = read_manifest(store, wanted.run_id)
    kept = kept_steps(manifest) if manifest is not None else ()
    if manifest is None or not kept or wanted.step not in {None, *kept}:
        return None
    step = kept[-1] if wanted.step is None else wanted.step
    place.put(Returned(captured=CapturedSource(store, manifest), step=step, for_run=run_id))
    return step


def kept_steps(manifest: Manifest) -> tuple[int, ...]:
    """Return the steps of the checkpoints whose files were captured, ascending; pure."""
    return tuple(sorted(one.step for one in manifest.checkpoints if one.is_kept))


@dataclass(frozen=True, slots=True)
class LocalCheckpoints:
    """Run directories in a folder of this machine."""

    runs: Path

    def steps(self, run_id: str) -> list[int]:
        """Return the steps of a run's checkpoints, ascending."""
        return checkpoint_steps(RunDirectory(self.runs / run_id).checkpoints)

    def put(self, returned: Returned) -> None:
        """Put a checkpoint into the directory of its run, whole or not at all."""
        run_id, step = returned.run_id, returned.step
        try:
            partial = partial_checkpoint(self.runs, run_id, step, for_run=returned.for_run)
            for name, path in returned.files().items():
                _write(returned.captured, path, partial / name)
            keep_checkpoint(partial, step)
        except OSError as error:
            why = error.strerror or error
            raise ArtifactStoreError(f"cannot write step {step} of {run_id}: {why}") from None


def _write(captured: CapturedSource, path: str, target: Path) -> None:
    """Write a captured file, each part compared with what was captured."""
    if target.exists():  # of an earlier try
        return
    temporary = partial_file(target)
    offset = 0
    with temporary.open("wb") as file:
        for part in captured.manifest.files[path].parts:
            digest, end = hashlib.sha256(), offset + part.size
            while offset < end:
                piece = captured.read(path, offset, min(_READ, end - offset))
                file.write(piece)
                digest.update(piece)
                offset += len(piece)
            if digest.hexdigest() != part.sha256:
                raise ArtifactStoreError(f"captured object {part.key} is not what was captured")
    temporary.replace(target)


def _place(project: Project, settings: Mapping[str, Any]) -> CheckpointPlace | None:
    """Return the volume that a run's stack names, None for one that nothing is put on from here."""
    cluster = str(settings.get("cluster") or "")
    volume = str(settings.get("volume") or "")
    profile: ClusterProfile | None = None
    if found := stacks.outputs(project, cluster).get("profile"):
        profile = parse_profile(found, cluster=cluster)
    if profile is None:
        return None
    if isinstance(profile.connection, KubernetesConnection):
        from runtime.control.cluster_checkpoints import ClusterCheckpoints

        # no prune deletes from the claims of users
        return None if volume else ClusterCheckpoints.open(profile, profile.connection)
    if not volume:
        return LocalCheckpoints(Path(profile.runs_path))
    with suppress(KeyError):
        return LocalCheckpoints(runs_folder(Path(stacks.outputs(project, volume)["path"])))
    return None
