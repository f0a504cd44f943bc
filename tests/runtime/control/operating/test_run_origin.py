"""A run that starts with another run's checkpoint: where it goes, and what refuses it."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.control.artifact_store import DirectoryStore
from runtime.control.manifest import CapturedCheckpoint, Manifest, write_manifest
from runtime.control.run_origin import steps_in_cluster
from runtime.control.run_source import FolderSource, SourceUnavailableError
from runtime.control.run_sources import RunSources
from runtime.control.store import runs, users, volumes
from runtime.control.store.store import Store
from runtime.control.values import NewRun, StoredRun, User, Volume, VolumeStatus
from runtime.errors import Problem, RefusedError
from runtime.states import RunState
from tests.runtime.control.operating.dispatching import Dispatching, config, request

OTHER = "run-before"


@pytest.fixture
def dispatching(sqlite_store: Store, tmp_path: Path) -> Dispatching:
    """Return a dispatcher with two local clusters."""
    made = Dispatching(store=sqlite_store, folder=tmp_path)
    made.add_cluster("local")
    made.add_cluster("lab", price=3.0)
    return made


@pytest.fixture
def user(dispatching: Dispatching) -> User:
    """Return a user with money."""
    found = dispatching.user()
    dispatching.credit(found, 10_000_000)
    return found


def before(dispatching: Dispatching, user: User, **fields: object) -> StoredRun:
    """Store a run that was."""
    values = {
        "run_id": OTHER,
        "user_id": user.user_id,
        "name": "n",
        "model": "m",
        "config_text": "",
        "config_digest": "d",
        "plan_json": "{}",
        "cluster": "lab",
        "num_gpus": 2,
        "state": RunState.COMPLETED,
    }
    with dispatching.store.write() as tx:
        return runs.insert_run(tx, NewRun(**(values | fields)))  # type: ignore[arg-type] # as given


def checkpoints(runs_folder: Path, *steps: int) -> None:
    for step in steps:
        (runs_folder / OTHER / f"checkpoints/step_{step}").mkdir(parents=True)


def shelf(
    dispatching: Dispatching, user: User, tmp_path: Path, team_id: str | None = None
) -> Volume:
    """Make a volume of the user's on the cluster `lab`."""
    new = volumes.NewVolume(
        name="shelf",
        user_id=user.user_id,
        team_id=team_id,
        size="1Gi",
        cluster="lab",
        claim_name=str(tmp_path / "shelf"),
    )
    with dispatching.store.write() as tx:
        volume = volumes.add_volume(tx, new)
        changed = volumes.change_volume(tx, volume.volume_id, status=VolumeStatus.RUNNING)
    assert changed is not None
    dispatching.clusters.paths[f"volume-{volume.volume_id}"] = tmp_path / "shelf"
    return changed


def refusal(dispatching: Dispatching, user: User, **fields: object) -> str:
    with pytest.raises(RefusedError) as raised:
        dispatching.dispatcher.create(user, request(config(), **fields), None)
    assert dispatching.operator.started == []
    [problem] = raised.value.problems
    return str(problem)


@pytest.mark.parametrize("text", [OTHER, f"{OTHER}:20"])
def test_a_run_goes_where_the_checkpoint_is(
    dispatching: Dispatching, user: User, tmp_path: Path, text: str
) -> None:
    before(dispatching, user)
    checkpoints(tmp_path / "runs", 20, 40)

    run = dispatching.dispatcher.create(user, request(config(), resume_from=text), None)

    assert run.cluster == "lab"  # though the other one is cheaper
    [operation] = dispatching.operator.started
    assert operation.settings["resumeFrom"] == text


def test_a_run_goes_to_the_volume_of_the_checkpoint(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    volume = shelf(dispatching, user, tmp_path)
    before(dispatching, user, settings={"volume": f"volume-{volume.volume_id}"})
    checkpoints(tmp_path / "shelf/runs", 20)

    run = dispatching.dispatcher.create(user, request(config(), resume_from=OTHER), None)

    assert run.settings == {"volume": f"volume-{volume.volume_id}", "resumeFrom": OTHER}


def test_another_volume_than_the_checkpoints_is_refused(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    shelf(dispatching, user, tmp_path)
    before(dispatching, user)

    said = refusal(dispatching, user, resume_from=OTHER, volume="shelf")

    assert "volume shelf is not where the checkpoint of run-before is" in said


def test_the_volume_of_a_team_is_not_that_of_its_member(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    with dispatching.store.write() as tx:
        team = users.add_team(tx, name="crew")
        users.add_member(tx, team.team_id, user.user_id)
    volume = shelf(dispatching, user, tmp_path, team.team_id)
    settings = {"volume": f"volume-{volume.volume_id}"}
    before(dispatching, user, settings=settings, team_id=team.team_id)

    assert "not this run's owner's" in refusal(dispatching, user, resume_from=OTHER)


@pytest.mark.parametrize(
    ("fields", "text", "said"),
    [
        ({"state": RunState.RUNNING}, OTHER, "is RUNNING, its checkpoints may still change"),
        ({"cluster": None, "state": RunState.STOPPED}, OTHER, "never ran"),
        ({"cluster": "gone"}, OTHER, "no cluster is up here"),
        ({}, "run-nobody-has", "Run not found"),
        ({}, "run-before:last", "neither RUN nor RUN:STEP"),
        ({}, OTHER, "run-before has no checkpoint on this run's volume"),
        ({"settings": {"volume": "volume-gone"}}, OTHER, "on a volume that is gone"),
    ],
)
def test_a_checkpoint_that_cannot_be_had_refuses_the_run(
    dispatching: Dispatching, user: User, fields: dict[str, object], text: str, said: str
) -> None:
    before(dispatching, user, **fields)

    assert said in refusal(dispatching, user, resume_from=text)


def test_a_step_that_is_not_there_is_named_with_those_that_are(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    before(dispatching, user)
    checkpoints(tmp_path / "runs", 20, 40)

    said = refusal(dispatching, user, resume_from=f"{OTHER}:30")

    assert "run-before has no checkpoint of step 30; it has those of 20, 40" in said


def test_nobody_starts_with_the_run_of_another(dispatching: Dispatching, user: User) -> None:
    before(dispatching, dispatching.user("bob"))

    assert "Run not found" in refusal(dispatching, user, resume_from=OTHER)


def test_a_paused_run_may_be_started_from(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    before(dispatching, user, state=RunState.PAUSED)
    checkpoints(tmp_path / "runs", 20)

    assert dispatching.dispatcher.create(user, request(config(), resume_from=OTHER), None)


class _Away(FolderSource):
    def entries(self, folder: str) -> list:
        raise SourceUnavailableError("away")


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (("checkpoints/step_4", "checkpoints/step_20", "checkpoints/.step_40.tmp"), (4, 20)),
        (("logs",), ()),
        ((), None),
    ],
    ids=["two", "none", "a volume that no server shows"],
)
def test_the_checkpoints_in_a_cluster_are_listed(
    dispatching: Dispatching,
    user: User,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    steps: tuple[int, ...] | None,
) -> None:
    run = before(dispatching, user)
    for name in names:
        (tmp_path / "there" / name).mkdir(parents=True)
    sources = RunSources(dispatching.clusters, None)
    source = FolderSource(tmp_path / "there")
    monkeypatch.setattr(sources, "live", lambda run: source)

    assert steps_in_cluster(sources)(run) == steps


def test_a_checkpoint_that_was_captured_is_as_good_as_one_on_the_volume(
    dispatching: Dispatching, user: User, tmp_path: Path
) -> None:
    run = before(dispatching, user)
    store = DirectoryStore(tmp_path / "artifacts")
    kept = CapturedCheckpoint(step=40, size=1, mtime=0.0, is_kept=True, url="")
    left = kept.model_copy(update={"step": 20, "is_kept": False})
    made = Manifest(run_id=OTHER, attempt=1, captured_at=run.created_at, checkpoints=(left, kept))
    write_manifest(store, made)
    sources = RunSources(dispatching.clusters, store)
    dispatcher = replace(dispatching.dispatcher, first_steps=steps_in_cluster(sources))

    assert steps_in_cluster(sources)(run) == (40,)
    assert dispatcher.create(user, request(config(), resume_from=f"{OTHER}:40"), None)
    with pytest.raises(RefusedError, match="no checkpoint of step 20; it has those of 40"):
        dispatcher.create(user, request(config(), resume_from=f"{OTHER}:20"), None)


def test_a_cluster_that_does_not_answer_refuses_nothing(
    dispatching: Dispatching, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(before(dispatching, user), cluster="lab")
    sources = RunSources(dispatching.clusters, None)
    monkeypatch.setattr(sources, "live", lambda run: _Away(tmp_path))

    assert steps_in_cluster(sources)(run) is None


def test_a_cluster_that_hangs_holds_up_no_request(
    dispatching: Dispatching, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.run_origin.WAIT_S", 0.1)
    run = before(dispatching, user)
    sources = RunSources(dispatching.clusters, None)
    answers = threading.Event()
    monkeypatch.setattr(sources, "live", lambda run: answers.wait(60) and None)

    assert steps_in_cluster(sources)(run) is None
    assert not answers.is_set()
    answers.set()


def test_what_breaks_a_listing_is_raised_to_the_request(
    dispatching: Dispatching, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = before(dispatching, user)
    sources = RunSources(dispatching.clusters, None)

    def broken(run: StoredRun) -> None:
        raise RefusedError([Problem(message="no context lab")])

    monkeypatch.setattr(sources, "live", broken)

    with pytest.raises(RefusedError, match="no context lab"):
        steps_in_cluster(sources)(run)
