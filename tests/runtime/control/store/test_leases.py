"""Leases: one holder at a time, tokens that grow, and no write of a holder that was replaced."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runtime.control.store import leases, runs
from runtime.control.store import store as store_module
from runtime.control.store.store import Store, open_store
from runtime.control.values import Lease
from tests.runtime.control.store.rows import add_run, add_user
from tests.waiting import wait_for

ROOT = Path(__file__).parents[4]
NUM_PROCESSES = 2
NUM_TURNS = 20
LIMITS = {
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "30s",
    "statement_timeout": "2min",
}

# A turn takes the lease, reads the run, and writes what it read plus one under that lease. Every
# second holding is over before its write, so that the other process replaces its holder.
CONTENDER = """
import json, sys, time
from runtime.control.store import leases, runs
from runtime.control.store.store import open_store

url, holder, num_turns = sys.stdin.readline().strip(), sys.argv[1], int(sys.argv[2])
store = open_store(url)
tokens, holdings = [], 0
while len(tokens) < num_turns:
    is_slow = holdings % 2 == 1
    with store.write() as tx:
        lease = leases.acquire(tx, "run/run-1", holder, ttl_s=0.001 if is_slow else 60)
    if lease is None:
        time.sleep(0.001)
        continue
    holdings += 1
    with store.read() as tx:
        run = runs.get_run(tx, "run-1")
    time.sleep(0.02 if is_slow else 0)
    with store.write() as tx:
        steps = (run.max_steps or 0) + 1
        if runs.compare_and_set(tx, "run-1", run.version, fence=lease, max_steps=steps):
            tokens.append(lease.token)
        leases.release(tx, lease)
print(json.dumps(tokens))
"""


def acquire(store: Store, holder: str, ttl_s: float = 60) -> Lease | None:
    with store.write() as tx:
        return leases.acquire(tx, "reconciler", holder, ttl_s=ttl_s)


def taken(store: Store, holder: str, ttl_s: float = 60) -> Lease:
    lease = acquire(store, holder, ttl_s)
    assert lease is not None
    return lease


def test_a_held_lease_is_given_to_nobody(store: Store) -> None:
    first = taken(store, "first")

    assert acquire(store, "second") is None
    assert acquire(store, "first") is None
    with store.read() as tx:
        assert leases.list_held(tx) == [first]


def test_a_lease_that_is_over_goes_to_the_next_with_the_next_token(store: Store) -> None:
    first = taken(store, "first", ttl_s=0.05)

    second = wait_for(lambda: acquire(store, "second"))

    assert second is not None
    assert second.token == first.token + 1
    with store.write() as tx:
        assert not leases.renew(tx, first, ttl_s=60)
        assert leases.renew(tx, second, ttl_s=60)
        assert not leases.is_held(tx, first)
        with pytest.raises(leases.LostLeaseError, match="first"):
            leases.require(tx, first)
        leases.require(tx, second)


def test_a_renewed_lease_is_kept(store: Store) -> None:
    first = taken(store, "first", ttl_s=0)
    with store.write() as tx:
        assert leases.renew(tx, first, ttl_s=60)

    assert acquire(store, "second") is None


def test_a_released_lease_is_free_and_its_token_spent(store: Store) -> None:
    first = taken(store, "first")
    with store.write() as tx:
        leases.release(tx, first)

    with store.write() as tx:
        assert not leases.is_held(tx, first)
        assert not leases.renew(tx, first, ttl_s=60)
        assert leases.list_held(tx) == []
    assert taken(store, "second").token == first.token + 1


def test_a_late_release_frees_nobody_elses_lease(store: Store) -> None:
    first = taken(store, "first", ttl_s=0)
    second = taken(store, "second")

    with store.write() as tx:
        leases.release(tx, first)
        assert leases.is_held(tx, second)


def test_leases_of_different_names_are_apart(store: Store) -> None:
    with store.write() as tx:
        names = [leases.acquire(tx, f"run/{number}", "one", ttl_s=60) for number in range(3)]

    assert [lease.name for lease in names if lease] == ["run/0", "run/1", "run/2"]


def test_a_lease_cannot_go_while_a_fenced_write_is_under_way(store: Store) -> None:
    run = add_run(store, add_user(store))
    with store.write() as tx:
        first = leases.acquire(tx, "reconciler", "first", ttl_s=0)
    assert first is not None
    began, order = threading.Event(), []

    def take_over() -> None:
        began.set()
        taken(store, "second")
        order.append("taken")

    thread = threading.Thread(target=take_over)
    with store.write() as tx:
        assert runs.compare_and_set(tx, run.run_id, 1, fence=first, reason="under the lease")
        thread.start()
        assert began.wait(60)
        thread.join(0.3)  # as long as this block is open the other must wait
        order.append("written")
    thread.join(60)

    assert order == ["written", "taken"]


@pytest.mark.control
def test_two_processes_never_write_under_one_anothers_lease(store: Store, store_url: str) -> None:
    add_run(store, add_user(store), max_steps=0)

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, f"holder-{number}", str(NUM_TURNS)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(NUM_PROCESSES)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{store_url}\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    tokens = [token for output in outputs for token in json.loads(output)]

    with store.read() as tx:
        run = runs.get_run(tx, "run-1")
    assert run is not None
    assert run.max_steps == NUM_PROCESSES * NUM_TURNS
    assert run.version == 1 + NUM_PROCESSES * NUM_TURNS
    assert len(set(tokens)) == len(tokens)


@pytest.mark.control
def test_a_host_that_vanishes_within_a_write_holds_up_nobody_for_long(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {"idle_in_transaction_session_timeout": "200ms"}
    monkeypatch.setattr(store_module, "_SESSION", {**store_module._SESSION, **silent})
    store = open_store(f"{postgres_url}/postgres")
    lease = taken(store, f"vanishing-{os.getpid()}")

    with store.engine.connect() as vanishing:
        assert leases.is_held(vanishing, lease)
        with store.write() as tx:  # waits for the row until the database has ended the other
            leases.release(tx, lease)
        with pytest.raises(DBAPIError):
            leases.is_held(vanishing, lease)
        vanishing.invalidate()

    store.close()


@pytest.mark.control
def test_every_session_of_postgres_has_its_limits(postgres_url: str) -> None:
    store = open_store(f"{postgres_url}/postgres")

    with store.read() as tx:
        found = {name: tx.execute(text(f"SHOW {name}")).scalar_one() for name in LIMITS}
    store.close()

    assert found == LIMITS
