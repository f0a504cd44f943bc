"""ClusterCheckpoints: checkpoints put back on a cluster's run volume, by Jobs beside it.

A Job reads from the bucket by itself, with a signed URL for each object, and compares what it reads
with what was captured. A store that pods cannot read, a directory, can give nothing back to them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from runtime.checkpoints import steps_of
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.control.artifact_store import ArtifactStoreError
from runtime.control.bucket_store import BucketStore
from runtime.control.checkpoint_return import Returned
from runtime.control.cluster_source import ClusterSource, open_reach
from runtime.kubernetes_profile import RUNS_FOLDER
from runtime.kubernetes_volume_job import VolumeTask
from runtime.launch.volume_task import FETCHES
from runtime.observe.kubernetes.run_files import RunFiles

_VALID = timedelta(hours=6)
_MAX_CHARS = 96 << 10
"""Of one Job's list: Linux takes no variable of more than 128 KiB."""

Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterCheckpoints:
    """The run directories of a cluster's run volume."""

    files: RunFiles
    do: Callable[[VolumeTask], Mapping[str, Any]]

    @classmethod
    def open(cls, profile: ClusterProfile, connection: KubernetesConnection) -> Self:
        """Return those of a cluster; nothing is asked yet."""
        reach = open_reach(profile, connection)
        return cls(files=reach.files, do=reach.do)

    def steps(self, run_id: str) -> list[int]:
        """Return the steps of a run's checkpoints, ascending."""
        entries = ClusterSource(self.files, run_id).entries("checkpoints")
        return steps_of(one.name for one in entries if one.is_dir)

    def put(self, returned: Returned) -> None:
        """Put a checkpoint into the directory of its run, whole or not at all."""
        store = returned.captured.store
        if not isinstance(store, BucketStore):
            raise ArtifactStoreError(
                f"the directory of {returned.run_id} was pruned, and what was captured of it is in "
                "a directory, which no pod reads: PADDOCK_ARTIFACTS has to be an s3:// URL"
            )
        words = ("fetch", returned.run_id, str(returned.step), returned.for_run)
        batches = list(batched(_fetches(store, returned)))
        for number, batch in enumerate(batches, start=1):
            said = json.dumps({"files": batch, "is_last": number == len(batches)})
            self.do(VolumeTask(words=words, sub_path=RUNS_FOLDER, secrets={FETCHES: said}))


def batched(fetches: Iterator[Json], *, max_chars: int = _MAX_CHARS) -> Iterator[list[Json]]:
    """Yield lists of files whose JSON is no longer than that, unless one file's alone is; pure."""
    batch: list[Json] = []
    num_chars = 0
    for fetch in fetches:
        size = len(json.dumps(fetch)) + 2
        if batch and num_chars + size > max_chars:
            yield batch
            batch, num_chars = [], 0
        batch.append(fetch)
        num_chars += size
    yield batch


def _fetches(store: BucketStore, returned: Returned) -> Iterator[Json]:
    for name, path in returned.files().items():
        parts = returned.captured.manifest.files[path].parts
        if any(part.num_frames for part in parts):
            raise ArtifactStoreError(f"{path} of {returned.run_id} was captured as a log")
        yield {
            "path": name,
            "parts": [
                {
                    "url": store.signed_get(part.key, _VALID),
                    "size": part.size,
                    "sha256": part.sha256,
                }
                for part in parts
            ],
        }
