"""Several servers on one Postgres: they share the runs, start none twice, replace each other."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from runtime.control.lease_keeper import NUM_SHARDS, SCHEDULER, SHARDS, LeaseKeeper, shard_of
from runtime.control.operations import OperationKind, OperationState
from runtime.control.start_steps import MAX_LOCKED
from runtime.control.store import leases, runs
from runtime.control.store.store import Store
from runtime.control.values import Lease
from runtime.states import RunState
from tests.runtime.control.conftest import SHARED, empty_database
from tests.runtime.control.reconciling.fakes import FakeCluster, FakeOperator, FakePlaces
from tests.runtime.control.reconciling.site import Site, make_site
from tests.runtime.control.store.rows import add_run, add_user
from tests.waiting import wait_for

NUM_RUNS = 20
PROMOTION_S = 10.0
Opener = Callable[[str], Store]
K_UP = OperationKind.UP


@pytest.fixture
def url(postgres_url: str) -> str:
    """Return the URL of an empty Postgres database."""
    empty_database(f"{postgres_url}/{SHARED}")
    return f"{postgres_url}/{SHARED}"


def live_on(cluster: FakeCluster, is_over: threading.Event) -> None:
    """Let every run of the cluster go its way: half a second each."""
    while not is_over.wait(0.02):
        for run_id, run in list(cluster.runs.items()):
            age_s = time.time() - run.started.timestamp()
            if run.state is RunState.PENDING and age_s > 0.1:
                cluster.become(run_id, RunState.RUNNING)
            if run.state is RunState.RUNNING and age_s > 0.5:
                cluster.become(run_id, RunState.COMPLETED)


@contextmanager
def reconciling(*sites: Site) -> Iterator[None]:
    """Let servers reconcile, each on its thread."""
    is_over = threading.Event()
    threads = [threading.Thread(target=one.reconciler.run, args=(is_over,)) for one in sites]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.control
def test_two_servers_take_twenty_runs_through_three_places(url: str, opened: Opener) -> None:
    cluster = FakeCluster(num_gpus=3)
    cluster.is_reachable = False  # a run whose stack is being made lets others use what it leaves
    places = FakePlaces({"east": cluster})
    stores = [opened(url), opened(url)]
    with ExitStack() as stack:
        keepers = [
            stack.enter_context(LeaseKeeper(store, f"server-{number}"))
            for number, store in enumerate(stores)
        ]
        for keeper in keepers:  # the first one lets half of the shards go to the second
            keeper.tend()
        operators = [FakeOperator(cluster, delay_s=0.05) for _ in stores]
        first = make_site(keepers[0], places, operators[0], store=stores[0])
        second = make_site(keepers[1], places, operators[1], store=stores[1], user=first.user)
        assert [len(keeper.shards()) for keeper in keepers] == [8, 8]
        names = [f"run-{number:02d}" for number in range(NUM_RUNS)]
        life = threading.Event()
        threading.Thread(target=live_on, args=(cluster, life), daemon=True).start()

        with reconciling(first, second):
            for number, name in enumerate(names):
                (first, second)[number % 2].dispatch(name)
            wait_for(lambda: all(is_made(first, name) for name in names))
            cluster.is_reachable = True
            wait_for(lambda: all(first.is_settled(name) for name in names), timeout_s=180)
        life.set()
        first.close()
        second.close()

    promoted = sorted((first.events(name, "queue")[0].event_id, name) for name in names)
    assert [name for _, name in promoted] == names
    assert sorted(cluster.starts) == [(name, 1) for name in names]
    assert all(first.run(name).state is RunState.COMPLETED for name in names)
    assert all(K_UP in {kind for _, kind, _ in one.performed} for one in operators)
    assert max(latencies(first, names)) < PROMOTION_S


def is_made(site: Site, name: str) -> bool:
    """Tell whether a run's stack has been made."""
    newest = site.newest(name)
    return newest is not None and newest.state is OperationState.DONE


def latencies(site: Site, names: list[str]) -> list[float]:
    """Return how long after each end of a run the next one was promoted, in seconds."""
    ended = sorted(run.ended_at for name in names if (run := site.run(name)).ended_at)
    promoted = sorted(site.events(name, "queue")[0].time for name in names)
    pairs = zip(promoted[3:], ended, strict=False)  # the first three found their places free
    return [(later - earlier).total_seconds() for later, earlier in pairs]


def test_a_run_has_one_shard() -> None:
    assert {shard_of(f"run-{number}") for number in range(500)} == set(SHARDS)
    assert len(SHARDS) == NUM_SHARDS
    assert shard_of("run-1") == shard_of("run-1")


@pytest.mark.control
def test_a_server_that_dies_is_replaced(url: str, opened: Opener) -> None:
    first, second = opened(url), opened(url)
    dead = LeaseKeeper(first, "server-dead", ttl_s=5.0)
    dead.tend()  # once, and never again
    assert len(dead.shards()) == NUM_SHARDS

    with LeaseKeeper(second, "server-2", ttl_s=5.0) as keeper:
        everything = {*SHARDS, SCHEDULER}
        wait_for(lambda: all(keeper.lease(name) for name in everything), timeout_s=90)
        assert dead.shards() == frozenset()
        assert dead.lease(SCHEDULER) is None

    with first.read() as tx:
        assert leases.list_held(tx) == []


def test_a_keeper_goes_on_after_an_error_of_any_kind(sqlite_store: Store) -> None:
    failing, was_called = LeaseKeeper(sqlite_store, "server-1", ttl_s=0.2), threading.Event()
    with failing as keeper:
        tend = keeper.tend

        def fail() -> None:
            keeper.tend = tend  # type: ignore[method-assign]  # once
            was_called.set()
            raise RuntimeError("no connection within 30 s")

        keeper.tend = fail  # type: ignore[method-assign]
        assert was_called.wait(60)
        time.sleep(0.5)  # more than a lease's time without a renewal, if nobody goes on
        wait_for(lambda: keeper.lease(SCHEDULER) is not None)


@pytest.mark.control
def test_a_server_that_was_replaced_writes_nothing(url: str, opened: Opener) -> None:
    store = opened(url)
    run = add_run(store, add_user(store))
    with store.write() as tx:
        old = leases.acquire(tx, "shard/01", "server-1", 0.0)
    with store.write() as tx:
        new = leases.acquire(tx, "shard/01", "server-2", 30.0)
    assert old is not None
    assert new is not None

    assert not write(store, run.run_id, run.version, old)
    assert write(store, run.run_id, run.version, new)


def write(store: Store, run_id: str, version: int, fence: Lease) -> bool:
    """Try to write a reason under a lease."""
    with store.write() as tx:
        return runs.compare_and_set(tx, run_id, version, fence=fence, reason="mine") is not None


def test_an_operation_of_a_dead_server_is_recovered_from(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.held.add(K_UP)
    site.dispatch("run-1")
    site.pass_until(lambda: K_UP in operator.of("run-1"))
    abandon(site, operator, "run-1")

    operator.held.clear()
    site.pass_until(lambda: "run-1" in cluster.runs)

    assert operator.of("run-1") == [
        OperationKind.MAKE,
        OperationKind.UP,
        OperationKind.RECOVER,
        OperationKind.UP,
    ]
    assert cluster.starts == [("run-1", 1)]


def test_an_engine_that_may_live_is_waited_for(
    site: Site,
    cluster: FakeCluster,
    operator: FakeOperator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (0.1, 0.1))
    alive = {"code": "engine_alive", "message": "pid 1 lives", "is_retryable": True}
    operator.failures[OperationKind.RECOVER] = [alive, alive]
    operator.held.add(K_UP)
    site.dispatch("run-1")
    site.pass_until(lambda: K_UP in operator.of("run-1"))
    abandon(site, operator, "run-1")
    operator.held.clear()

    site.pass_until(lambda: "run-1" in cluster.runs)

    kinds = operator.of("run-1")
    assert kinds[2:] == [OperationKind.RECOVER] * 3 + [K_UP]


def test_a_lock_that_no_recovery_finds_ends_the_run(
    site: Site, operator: FakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (0.01, 0.01))
    alive = {"code": "engine_alive", "message": "locked by pid 1 on x", "is_retryable": True}
    operator.failures[K_UP] = [alive] * (MAX_LOCKED + 4)
    site.dispatch("run-1")

    run = site.until_settled("run-1")

    assert (run.state, run.reason) == (RunState.FAILED, "locked by pid 1 on x")
    pairs = [OperationKind.RECOVER, K_UP] * (MAX_LOCKED - 1)
    assert operator.of("run-1")[1:][: len(pairs) + 1] == [K_UP, *pairs]
    assert operator.of("run-1").count(K_UP) == MAX_LOCKED


def test_a_stop_ends_what_runs_while_an_engine_may_live(
    site: Site, cluster: FakeCluster, operator: FakeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.control.situations.RETRY_S", (0.5, 0.5))
    alive = {"code": "engine_alive", "message": "pid 1 lives", "is_retryable": True}
    operator.failures[OperationKind.RECOVER] = [alive] * 3
    operator.held.add(K_UP)
    site.dispatch("run-1")
    site.pass_until(lambda: K_UP in operator.of("run-1"))
    cluster.start(operator.operations["run-1"], num_gpus=1)  # as far as that engine came
    abandon(site, operator, "run-1")

    site.intents.stop(site.user, "run-1")
    site.pass_until(lambda: cluster.ended)
    site.reconciler.make_pass()
    assert site.run("run-1").state is not RunState.STOPPED
    run = site.until_settled("run-1")

    assert run.state is RunState.STOPPED
    assert operator.of("run-1").count(OperationKind.RECOVER) == 4


def test_a_run_whose_secrets_died_with_their_server_fails(
    site: Site, operator: FakeOperator
) -> None:
    operator.held.add(OperationKind.MAKE)
    site.dispatch("run-1")
    abandon(site, operator, "run-1")

    run = site.until_settled("run-1")

    assert run.state is RunState.FAILED
    assert "dispatch it again" in run.reason
    assert operator.of("run-1")[1:] == [OperationKind.RECOVER, OperationKind.REMOVE]


def test_a_report_that_a_dead_server_left_is_taken(
    site: Site, cluster: FakeCluster, operator: FakeOperator
) -> None:
    operator.held.add(K_UP)
    site.dispatch("run-1")
    site.pass_until(lambda: K_UP in operator.of("run-1"))
    operator.finish("run-1")  # its worker lived on, and left its report in the run's folder
    abandon(site, operator, "run-1", forgets=False)

    site.reconciler.make_pass()

    newest = site.newest("run-1")
    assert newest is not None
    assert (newest.kind, newest.state) == (K_UP, OperationState.DONE)


def abandon(site: Site, operator: FakeOperator, run_id: str, *, forgets: bool = True) -> None:
    """Let the server of a run's operation be one that has died."""
    with site.store.write() as tx:
        tx.exec_driver_sql(f"UPDATE operations SET holder = 'dead' WHERE run_id = '{run_id}'")
    if forgets:
        del operator.reports[run_id]
