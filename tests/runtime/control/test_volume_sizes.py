"""A volume's size is a quantity of Kubernetes, of a byte at least; what becomes of a larger one."""

from dataclasses import dataclass

import pytest

from runtime.control.dispatcher import volume_stack
from runtime.control.operations import OperationKind, OperationReport, OperationState
from runtime.control.requests import CreateVolume
from runtime.control.store import stack_files, volumes
from runtime.control.store.store import Store
from runtime.control.values import VolumeStatus
from runtime.control.volume_stacks import StackVolumes, VolumeLoop
from runtime.errors import SettingsError
from tests.runtime.control.operating.dispatching import GivenClusters, NotedOperations
from tests.runtime.control.store.rows import add_user


@pytest.mark.parametrize("size", ["1e400", "9" * 400, "1e30Gi", "1.2.3", "0", "1m", "many", ""])
def test_a_size_that_is_none_is_refused_by_its_field(sqlite_store: Store, size: str) -> None:
    user = add_user(sqlite_store)
    volumes = StackVolumes(store=sqlite_store, clusters=GivenClusters())

    with pytest.raises(SettingsError, match=r"size: .* is no size"):
        volumes.create(user, CreateVolume(name="shelf", size=size))
    with pytest.raises(SettingsError, match=r"size: .* is no size"):
        volumes.expand(user, "shelf", size=size, team_id=None)


@dataclass(kw_only=True)
class RefusedOperations(NotedOperations):
    """Says of each operation that it failed, with these words."""

    words: str

    def state(self, run_id: str) -> OperationReport | None:
        """Return the report of the newest operation."""
        if not self.started:
            return None
        newest = self.started[-1]
        return OperationReport(
            operation_id=newest.operation_id,
            kind=newest.kind,
            run_id=run_id,
            attempt=1,
            state=OperationState.FAILED,
            message=self.words,
        )


def test_a_volume_that_cannot_grow_is_usable_as_it_was_and_asked_again(sqlite_store: Store) -> None:
    user = add_user(sqlite_store)
    asks = StackVolumes(store=sqlite_store, clusters=GivenClusters())
    new = volumes.NewVolume(
        name="shelf", user_id=user.user_id, size="1Ti", cluster="lab", claim_name="claim"
    )
    with sqlite_store.write() as tx:
        stack = volume_stack(volumes.add_volume(tx, new))
        stack_files.put_file(tx, stack, "config:\n  paddock:size: 2Ti\n")
    words = f"claim {stack} stays at 1Ti: its class must support resize"
    operator = RefusedOperations(words=words)
    loop = VolumeLoop(store=sqlite_store, operator=operator, holder="test-server")

    for num_asked in (1, 2):
        asks.expand(user, "shelf", size="2Ti", team_id=None)
        for _ in range(3):
            loop.make_pass()
        [shelf] = asks.page(user, None)

        assert (shelf.status, shelf.size) == (VolumeStatus.RUNNING, "1Ti")
        assert shelf.reason == words
        assert [one.kind for one in operator.started] == [OperationKind.UP] * num_asked
