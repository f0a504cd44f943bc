"""A volume's size is a quantity of Kubernetes, of a byte at least."""

import pytest

from runtime.control.requests import CreateVolume
from runtime.control.store.store import Store
from runtime.control.volume_stacks import StackVolumes
from runtime.errors import SettingsError
from tests.runtime.control.operating.dispatching import GivenClusters
from tests.runtime.control.store.rows import add_user


@pytest.mark.parametrize("size", ["1e400", "9" * 400, "1e30Gi", "1.2.3", "0", "1m", "many", ""])
def test_a_size_that_is_none_is_refused_by_its_field(sqlite_store: Store, size: str) -> None:
    user = add_user(sqlite_store)
    volumes = StackVolumes(store=sqlite_store, clusters=GivenClusters())

    with pytest.raises(SettingsError, match=r"size: .* is no size"):
        volumes.create(user, CreateVolume(name="shelf", size=size))
    with pytest.raises(SettingsError, match=r"size: .* is no size"):
        volumes.expand(user, "shelf", size=size, team_id=None)
