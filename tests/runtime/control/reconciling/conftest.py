"""A server over a real store and a fake cluster of three GPUs."""

from collections.abc import Iterator

import pytest

from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.store.store import Store
from tests.runtime.control.reconciling.fake_stacks import FakeStacks
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
    places = FakePlaces({"east": cluster})
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        made = make_site(keeper, places, operator, store=sqlite_store, stacks=FakeStacks())
        yield made
        made.close()


@pytest.fixture
def stacks(site: Site) -> FakeStacks:
    """Return the server's state backend, which has no stacks."""
    assert isinstance(site.stacks, FakeStacks)
    return site.stacks
