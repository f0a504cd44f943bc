"""A server over a real store and a fake cluster of three GPUs."""

from collections.abc import Iterator

import pytest

from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.store.store import Store
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator, FakePlaces
from tests.runtime.control.reconciling.site import Site, make_site


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster of three GPUs."""
    return FakeCluster(num_gpus=3)


@pytest.fixture
def operator(cluster: FakeCluster) -> FakeOperator:
    """Return what performs operations on the cluster."""
    return FakeOperator(cluster)


@pytest.fixture
def site(sqlite_store: Store, cluster: FakeCluster, operator: FakeOperator) -> Iterator[Site]:
    """Yield a server on SQLite, whose test makes its passes."""
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        made = make_site(keeper, FakePlaces({"east": cluster}), operator, store=sqlite_store)
        yield made
        made.close()
