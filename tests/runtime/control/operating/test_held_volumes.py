"""Which volumes may be deleted: none that a run is or comes on, or whose runs are not captured."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.control.dispatcher import volume_stack
from runtime.control.run_origin import hold_volume
from runtime.control.store import run_lists, runs, volumes
from runtime.control.store.run_lists import RunFilter
from runtime.control.store.store import Store
from runtime.control.values import StoredRun, User, Volume, VolumeStatus
from runtime.control.volume_stacks import StackVolumes
from runtime.control.wire.texts import without_markup
from runtime.errors import RefusedError, RunStateError
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.operating.dispatching import (
    Dispatching,
    GivenClusters,
    config,
    request,
)
from tests.runtime.control.store.rows import NEW_RUN, add_run, add_user

HALF_CAPTURED = {"teardown": Teardown.DONE, "capture": Capture.INCOMPLETE}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ready_volume(store: Store, user: User, path: str) -> Volume:
    """Store a volume of a user that is up."""
    new = volumes.NewVolume(
        name="shelf", user_id=user.user_id, size="1Ti", cluster="local", claim_name=path
    )
    with store.write() as tx:
        made = volumes.add_volume(tx, new)
        ready = volumes.change_volume(tx, made.volume_id, status=VolumeStatus.RUNNING)
    assert ready is not None
    return ready


def test_a_volume_that_is_deleted_during_a_dispatch_takes_no_run(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatching = Dispatching(store=sqlite_store, folder=tmp_path)
    dispatching.add_cluster("local")
    user = dispatching.user()
    deletes = StackVolumes(store=dispatching.store, clusters=dispatching.clusters)
    ready_volume(dispatching.store, user, str(tmp_path / "shelf"))

    def volume_path(cluster: str, volume: str) -> None:
        deletes.delete(user, "shelf", team_id=None)  # it is asked for once the volume was found

    monkeypatch.setattr(dispatching.clusters, "volume_path", volume_path)
    with pytest.raises(RefusedError, match="shelf is TERMINATING"):
        dispatching.dispatcher.create(user, request(config(), volume="shelf"), None)

    with sqlite_store.read() as tx:
        assert run_lists.list_runs(tx, RunFilter(), limit=100).runs == ()
    assert dispatching.operator.started == []


def test_a_volume_is_not_deleted_while_a_run_is_stored_on_it(store: Store, tmp_path: Path) -> None:
    user = add_user(store)
    volume = ready_volume(store, user, str(tmp_path / "shelf"))
    deletes = StackVolumes(store=store, clusters=GivenClusters())

    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            hold_volume(tx, volume)
            deleting = pool.submit(deletes.delete, user, "shelf", team_id=None)
            wait([deleting], timeout=1)  # it would end here, were it not made to wait
            settings = {"volume": volume_stack(volume)}
            new = replace(NEW_RUN, user_id=user.user_id, settings=settings)
            runs.insert_run(tx, new)
        with pytest.raises(RunStateError, match="is used by run-1"):
            deleting.result(60)


def over_on(
    store: Store,
    volume: Volume,
    user: User,
    run_id: str = "run-1",
    changes: Mapping[str, object] = HALF_CAPTURED,
) -> StoredRun:
    """Store a run that is over on a volume."""
    run = add_run(store, user, run_id, settings={"volume": volume_stack(volume)})
    ended = {"state": RunState.FAILED, **changes}
    with store.write() as tx:
        changed = runs.compare_and_set(tx, run_id, run.version, fence=None, **ended)
    assert changed is not None
    return changed


def test_a_volume_is_not_deleted_while_it_alone_has_the_files_of_a_run(
    store: Store, tmp_path: Path
) -> None:
    user = add_user(store)
    volume = ready_volume(store, user, str(tmp_path / "shelf"))
    deletes = StackVolumes(store=store, clusters=GivenClusters())
    add_run(store, user, "elsewhere")
    over_on(store, replace(volume, volume_id="another"), user, "other")
    held = [over_on(store, volume, user, f"run-{number}") for number in range(4)]

    with pytest.raises(RunStateError) as refused:
        deletes.delete(user, "shelf", team_id=None)

    said = str(refused.value)
    assert said.startswith("volume shelf has the only files of run-0, run-1, run-2 and 1 more, wh")
    assert "train delete RUN" in said
    assert without_markup(said) == said, "the client would read a part of it as markup"
    for run in held:
        with store.write() as tx:  # as the reconciler does once a user has deleted it
            assert runs.compare_and_set(tx, run.run_id, run.version, deleted_at=NOON)
    deletes.delete(user, "shelf", team_id=None)
    with store.read() as tx:
        found = volumes.find_volume(tx, volume.volume_id)
    assert found is not None
    assert found.status is VolumeStatus.TERMINATING


@pytest.mark.parametrize(
    "changes",
    [
        {"teardown": Teardown.NONE, "capture": Capture.NONE},
        {"teardown": Teardown.NONE, "capture": Capture.RUNNING},
        {"teardown": Teardown.STUCK, "capture": Capture.DONE},
    ],
)
def test_a_volume_is_not_deleted_before_its_runs_are_captured_and_torn_down(
    sqlite_store: Store, tmp_path: Path, changes: dict[str, object]
) -> None:
    user = add_user(sqlite_store)
    volume = ready_volume(sqlite_store, user, str(tmp_path / "shelf"))
    deletes = StackVolumes(store=sqlite_store, clusters=GivenClusters())
    run = over_on(sqlite_store, volume, user, changes=changes)

    with pytest.raises(RunStateError, match="run-1, which is over, and not yet captured and torn"):
        deletes.delete(user, "shelf", team_id=None)

    done = {"teardown": Teardown.DONE, "capture": Capture.DONE}
    with sqlite_store.write() as tx:
        assert runs.compare_and_set(tx, run.run_id, run.version, **done)
    deletes.delete(user, "shelf", team_id=None)
