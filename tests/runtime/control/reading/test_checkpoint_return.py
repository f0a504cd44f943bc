"""A checkpoint that was pruned with its run is put back for whoever starts with it."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.control.artifact_store import ArtifactStore, ArtifactStoreError, DirectoryStore
from runtime.control.bucket_store import BucketStore
from runtime.control.capture import CaptureOptions, capture_run
from runtime.control.checkpoint_return import (
    CheckpointPlace,
    LocalCheckpoints,
    kept_steps,
    return_checkpoint,
)
from runtime.control.cluster_checkpoints import ClusterCheckpoints, batched
from runtime.control.manifest import read_manifest
from runtime.control.run_capture import parts
from runtime.control.run_source import FolderSource
from runtime.errors import PaddockError
from runtime.kubernetes_volume_job import VolumeTask
from runtime.launch import volume_task
from runtime.resume_from import ResumeFrom
from runtime.states import RunState
from tests.runtime.control.reading.files_proxy import run_files
from tests.runtime.control.reading.run_files import RUN_ID, stored_run, write_run
from tests.runtime.control.reading.s3 import S3Server

MODEL = "checkpoints/step_4/trainer/model.safetensors"
WORDS = "checkpoints/step_4/orchestrator/words.jsonl"
LAST = ResumeFrom(run_id=RUN_ID)


def pruned(tmp_path: Path, store: ArtifactStore) -> dict[str, bytes]:
    """Capture a run and delete its directory; return the files of its last checkpoint."""
    root = write_run(tmp_path).path
    (root / WORDS).parent.mkdir()
    (root / WORDS).write_text('{"word": 1}\n')
    (root / WORDS).with_name("empty").touch()
    capture_run(
        stored_run(tmp_path, RunState.COMPLETED),
        FolderSource(root),
        store,
        CaptureOptions(checkpoints="last"),
    )
    found = files_below(root / "checkpoints/step_4")
    assert found
    shutil.rmtree(root)
    return found


def files_below(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, by path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


class TasksHere:
    """Does what a Job does beside the volume, in this process."""

    def __init__(self, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Work on this volume."""
        self.tasks: list[VolumeTask] = []
        self.is_killed = False
        self._monkeypatch = monkeypatch
        self._log = volume / "termination"
        monkeypatch.setattr(volume_task, "ROOT", str(volume / "runs"))
        monkeypatch.setattr(volume_task, "TERMINATION_LOG", str(self._log))

    def __call__(self, task: VolumeTask) -> Mapping[str, Any]:
        """Do a task; raises ArtifactStoreError where a Job would fail."""
        self.tasks.append(task)
        for name, value in task.secrets.items():
            self._monkeypatch.setenv(name, value)
        if volume_task.main(list(task.words)) != 0:
            raise ArtifactStoreError(self._log.read_text())
        return json.loads(self._log.read_text())


@pytest.fixture(params=["local", "cluster"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CheckpointPlace]:
    """Yield the run directories of a volume of each kind."""
    if request.param == "local":
        yield LocalCheckpoints(tmp_path / "runs")
        return
    with run_files(tmp_path) as (files, _):
        yield ClusterCheckpoints(files=files, do=TasksHere(tmp_path, monkeypatch))


@pytest.fixture
def store(bucket: BucketStore, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    """Return the store of a bucket, whose large objects are small."""
    monkeypatch.setattr(parts, "RAW_PART_BYTES", 400)
    return bucket


@pytest.mark.parametrize("wanted", [LAST, ResumeFrom(run_id=RUN_ID, step=4)])
def test_a_pruned_checkpoint_is_there_again_as_it_was(
    place: CheckpointPlace, store: ArtifactStore, tmp_path: Path, wanted: ResumeFrom
) -> None:
    files = pruned(tmp_path, store)

    step = return_checkpoint("run-next", wanted, place, store)

    assert step == 4
    assert place.steps(RUN_ID) == [4]
    assert files_below(tmp_path / "runs" / RUN_ID / "checkpoints/step_4") == files
    assert [one.name for one in (tmp_path / "runs" / RUN_ID / "checkpoints").iterdir()] == [
        "step_4"
    ]
    assert return_checkpoint("run-next", wanted, place, store) is None, "it is there"


def test_a_checkpoint_that_nobody_kept_is_left_to_the_refusal(
    place: CheckpointPlace, store: ArtifactStore, tmp_path: Path
) -> None:
    pruned(tmp_path, store)

    assert return_checkpoint("run-n", ResumeFrom(run_id=RUN_ID, step=2), place, store) is None
    assert return_checkpoint("run-n", ResumeFrom(run_id="run-other"), place, store) is None
    assert not (tmp_path / "runs" / RUN_ID).exists()


def test_a_run_with_a_checkpoint_of_its_own_needs_no_other(
    place: CheckpointPlace, store: ArtifactStore, tmp_path: Path
) -> None:
    pruned(tmp_path, store)
    (tmp_path / "runs/run-next/checkpoints/step_1").mkdir(parents=True)

    assert return_checkpoint("run-next", LAST, place, store) is None


def test_a_damaged_object_makes_no_checkpoint_and_what_was_good_is_not_fetched_again(
    place: CheckpointPlace, store: ArtifactStore, s3: S3Server, tmp_path: Path
) -> None:
    files = pruned(tmp_path, store)
    manifest = read_manifest(store, RUN_ID)
    assert manifest is not None
    key = manifest.files[MODEL].parts[-1].key
    good = store.read(key, 0, 10**6)
    store.put(key, [bytes(len(good))])

    with pytest.raises(ArtifactStoreError, match="not what was captured"):
        return_checkpoint("run-next", LAST, place, store)
    assert place.steps(RUN_ID) == []
    store.put(key, [good])
    s3.requests.clear()
    assert return_checkpoint("run-next", LAST, place, store) == 4

    assert files_below(tmp_path / "runs" / RUN_ID / "checkpoints/step_4") == files
    fetched = [one for one in s3.requests if one.startswith("GET") and "words.jsonl" in one]
    assert fetched == []


def test_two_runs_that_start_with_one_checkpoint_do_not_meet(
    place: CheckpointPlace, store: ArtifactStore, tmp_path: Path
) -> None:
    files = pruned(tmp_path, store)
    partial = tmp_path / "runs" / RUN_ID / "checkpoints/.step_4.for-run-other"
    partial.mkdir(parents=True)

    assert return_checkpoint("run-next", LAST, place, store) == 4

    volume_task.keep_checkpoint(partial, 4)  # the other one is later
    assert not partial.exists()
    assert files_below(tmp_path / "runs" / RUN_ID / "checkpoints/step_4") == files


def test_a_link_in_the_directory_leads_nowhere(
    place: CheckpointPlace, store: ArtifactStore, tmp_path: Path
) -> None:
    pruned(tmp_path, store)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / RUN_ID).mkdir()
    (tmp_path / "runs" / RUN_ID / "checkpoints").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PaddockError, match=r"is a link|leaves the run's directory"):
        return_checkpoint("run-next", LAST, place, store)

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_pods_cannot_fetch_from_a_directory_and_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path / "artifacts")
    pruned(tmp_path, store)

    with run_files(tmp_path) as (files, _):
        cluster = ClusterCheckpoints(files=files, do=TasksHere(tmp_path, monkeypatch))
        with pytest.raises(ArtifactStoreError, match="PADDOCK_ARTIFACTS has to be an s3:// URL"):
            return_checkpoint("run-next", LAST, cluster, store)


def test_urls_of_a_fetch_are_in_a_secret_and_in_no_word(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned(tmp_path, store)
    tasks = TasksHere(tmp_path, monkeypatch)

    with run_files(tmp_path) as (files, _):
        return_checkpoint("run-next", LAST, ClusterCheckpoints(files=files, do=tasks), store)

    assert [task.words for task in tasks.tasks] == [("fetch", RUN_ID, "4", "run-next")]
    assert "Signature" in tasks.tasks[0].secrets[volume_task.FETCHES]
    assert "Signature" not in repr(tasks.tasks)


def test_many_files_are_divided_among_jobs() -> None:
    fetches = [{"path": f"rank_{number}", "parts": []} for number in range(100)]

    batches = list(batched(iter(fetches), max_chars=1000))

    assert [one for batch in batches for one in batch] == fetches
    assert len(batches) > 3
    assert all(len(json.dumps(batch)) <= 1000 for batch in batches)


def test_only_checkpoints_with_their_files_count_as_kept(
    store: ArtifactStore, tmp_path: Path
) -> None:
    pruned(tmp_path, store)
    manifest = read_manifest(store, RUN_ID)
    assert manifest is not None

    assert [one.step for one in manifest.checkpoints] == [2, 4]
    assert kept_steps(manifest) == (4,)
