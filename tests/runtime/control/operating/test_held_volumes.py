"""A volume that is being deleted takes no run, however the two requests meet."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.control.dispatcher import volume_stack
from runtime.control.run_origin import hold_volume
from runtime.control.store import run_lists, runs, volumes
from runtime.control.store.run_lists import RunFilter
from runtime.control.store.store import Store
from runtime.control.values import User, Volume, VolumeStatus
from runtime.control.volume_stacks import StackVolumes
from runtime.errors import RefusedError, RunStateError
from tests.runtime.control.operating.dispatching import (
    Dispatching,
    GivenClusters,
    config,
    request,
)
from tests.runtime.control.store.rows import NEW_RUN, add_user


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
