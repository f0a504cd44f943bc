"""The queue's numbers and positions, and requests that are sent twice."""

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from runtime.control.store import idempotency, queue, runs
from runtime.control.store.idempotency import RequestKey
from runtime.control.store.store import Store
from runtime.control.values import NewRun, Wish
from runtime.errors import ConflictError
from runtime.states import RunState
from tests.runtime.control.store.rows import NEW_RUN, Halfway, add_run, add_user


def test_numbers_grow_in_the_order_of_the_commits(store: Store) -> None:
    numbers: list[int] = []

    def take() -> None:
        for _ in range(10):
            with store.write() as tx:
                number = queue.next_queue_number(tx)
                numbers.append(number)  # the counter is locked until the block ends

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert numbers == list(range(1, 41))


def test_runs_wait_first_in_first_out(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    for number, (user, run_id) in enumerate([(ada, "one"), (bob, "two"), (ada, "three")], 1):
        add_run(store, user, run_id, queue_number=number)
    add_run(store, ada, "going", queue_number=4, state=RunState.RUNNING)
    add_run(store, ada, "by-hand", is_adopted=True)

    with store.read() as tx:
        waiting = queue.list_queued(tx)
        ahead = [queue.num_ahead(tx, run) for run in waiting]

        assert [run.run_id for run in waiting] == ["one", "two", "three"]
        assert ahead == [0, 1, 2]
        assert queue.num_queued(tx, ada.user_id) == 2
        assert queue.num_queued(tx, bob.user_id) == 1


def test_a_run_in_a_clusters_own_queue_counts_as_queued(store: Store) -> None:
    ada = add_user(store)
    add_run(store, ada, "left-to-kueue", cluster="lab", queue_number=None)
    add_run(store, ada, "next", queue_number=2)
    add_run(store, ada, "by-hand", cluster="lab", is_adopted=True)

    with store.read() as tx:
        assert queue.num_queued(tx, ada.user_id) == 2
        assert [run.run_id for run in queue.list_queued(tx)] == ["next"]


def test_a_run_that_is_to_stop_waits_no_more(store: Store) -> None:
    run = add_run(store, add_user(store), queue_number=1)
    with store.write() as tx:
        runs.compare_and_set(tx, run.run_id, 1, wish=Wish.STOP)

    with store.read() as tx:
        assert queue.list_queued(tx) == []
        assert queue.num_queued(tx, run.user_id) == 0


def test_the_limit_on_queued_runs_holds_for_requests_at_once(store: Store) -> None:
    ada = add_user(store)
    barrier = threading.Barrier(6)

    def dispatch(number: int) -> None:
        barrier.wait(60)
        with store.write() as tx:
            place = queue.next_queue_number(tx)
            if queue.num_queued(tx, ada.user_id) >= 3:
                return
            runs.insert_run(tx, run_of(ada.user_id, number, place))

    threads = [threading.Thread(target=dispatch, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    with store.read() as tx:
        assert queue.num_queued(tx, ada.user_id) == 3


def test_the_same_request_makes_one_run(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    request = RequestKey(user_id=ada.user_id, key="k", digest="sha256:1")
    with store.write() as tx:
        first = idempotency.claim_key(tx, request, "run-1")

    with store.write() as tx:
        again = idempotency.claim_key(tx, request, "run-2")
        of_bob = idempotency.claim_key(
            tx, RequestKey(user_id=bob.user_id, key="k", digest="sha256:2"), "run-3"
        )

    assert (first, again, of_bob) == ("run-1", "run-1", "run-3")


def test_another_request_of_the_same_key_is_refused(store: Store) -> None:
    ada = add_user(store)
    with store.write() as tx:
        idempotency.claim_key(tx, RequestKey(user_id=ada.user_id, key="k", digest="1"), "run-1")

    with pytest.raises(ConflictError, match="run-1"), store.write() as tx:
        idempotency.claim_key(tx, RequestKey(user_id=ada.user_id, key="k", digest="2"), "run-2")


def test_the_same_request_at_once_makes_one_run(store: Store) -> None:
    ada = add_user(store)
    barrier = threading.Barrier(6)
    given: list[str] = []

    def send(number: int) -> None:
        barrier.wait(60)
        request = RequestKey(user_id=ada.user_id, key="k", digest="1")
        with store.write() as tx:
            run_id = idempotency.claim_key(tx, request, f"run-{number}")
            if run_id == f"run-{number}":
                runs.insert_run(tx, run_of(ada.user_id, number, None))
        given.append(run_id)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(given) == 6
    assert len(set(given)) == 1
    with store.read() as tx:
        assert runs.get_run(tx, given[0]) is not None


def test_a_request_that_fails_may_be_sent_again(store: Store) -> None:
    ada = add_user(store)
    request = RequestKey(user_id=ada.user_id, key="k", digest="1")
    with suppress(Halfway), store.write() as tx:
        idempotency.claim_key(tx, request, "run-1")
        raise Halfway

    with store.write() as tx:
        assert idempotency.claim_key(tx, request, "run-2") == "run-2"


def run_of(user_id: str, number: int, place: int | None) -> NewRun:
    return replace(NEW_RUN, run_id=f"run-{number}", user_id=user_id, queue_number=place)
