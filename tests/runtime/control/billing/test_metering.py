"""Usage intervals from what is seen of a run, over its attempts."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from runtime.control.metering import Metering
from runtime.control.places import PodUse, Seen
from runtime.control.run_memory import RunMemory
from runtime.control.store import leases, usage
from runtime.control.store.columns import EPOCH
from runtime.control.store.store import Store
from runtime.control.values import Lease, StoredRun
from tests.runtime.control.reconciling.fakes import GPU, FakeCluster, FakePlaces
from tests.runtime.control.store.rows import add_run, add_user

OLD = PodUse(source="old-pod", gpu_type=GPU, num_gpus=8, started_at=EPOCH)


def at(seconds: float) -> datetime:
    """Return a time after the first pod's start."""
    return EPOCH + timedelta(seconds=seconds)


def ends(store: Store, run: StoredRun) -> dict[str, datetime | None]:
    """Return when each pod's interval ended."""
    with store.read() as connection:
        found = usage.list_intervals(connection, run.run_id)
    return {one.source: one.ended_at for one in found}


@pytest.fixture
def fence(store: Store) -> Lease:
    """Return a lease that is held."""
    with store.write() as tx:
        held = leases.acquire(tx, "shard/00", "server-1", 600)
    assert held is not None
    return held


def test_who_has_lost_the_lease_opens_nothing_again(store: Store, fence: Lease) -> None:
    run = replace(add_run(store, add_user(store)), cluster="east", attempt=1)
    metering = Metering(store, FakePlaces({"east": FakeCluster()}))
    metering.meter(run, Seen(uses=(replace(OLD, ended_at=at(60)),)), RunMemory(), fence)
    with store.write() as tx:
        leases.release(tx, fence)
        assert leases.acquire(tx, fence.name, "server-2", 600) is not None

    metering.meter(run, Seen(uses=(OLD,)), RunMemory(), fence)  # as it was seen before the pause

    assert ends(store, run) == {"old-pod": at(60)}


def test_a_restarted_run_is_not_billed_while_its_next_pods_wait(store: Store, fence: Lease) -> None:
    first = replace(add_run(store, add_user(store)), cluster="east", attempt=1)
    second = replace(first, attempt=2)
    metering, memory = Metering(store, FakePlaces({"east": FakeCluster()})), RunMemory()
    new = replace(OLD, source="new-pod", started_at=at(900))

    metering.meter(first, Seen(uses=(OLD,)), memory, fence)
    metering.meter(second, Seen(num_left=1), memory, fence)  # the old pods, which an `up` ends
    going = ends(store, first)
    metering.meter(second, Seen(began_at=at(60)), memory, fence)
    waiting = ends(store, first)
    metering.meter(second, Seen(uses=(new,), began_at=at(60)), memory, fence)

    assert going == {"old-pod": None}
    assert waiting == {"old-pod": at(60)}
    assert ends(store, first) == {"old-pod": at(60), "new-pod": None}


def test_where_nobody_tells_the_old_attempt_ends_as_the_new_one_begins(
    store: Store, fence: Lease
) -> None:
    first = replace(add_run(store, add_user(store)), cluster="east", attempt=1)
    second = replace(first, attempt=2)
    places = FakePlaces({"east": FakeCluster()})
    new = replace(OLD, source="new-pod", started_at=at(90))

    Metering(store, places).meter(first, Seen(uses=(OLD,)), RunMemory(), fence)
    Metering(store, places).meter(
        second, Seen(uses=(new,)), RunMemory(), fence
    )  # by another server

    assert ends(store, first) == {"old-pod": at(90), "new-pod": None}
