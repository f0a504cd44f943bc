"""The bucket: a burst, then a rate, a user apart from another."""

import pytest

from runtime.control.app import ApiLimits
from runtime.control.errors_http import RateLimitedError
from runtime.control.rate_limit import Rate, RateLimit
from runtime.control.store.store import Store
from tests.runtime.control.api.server import serve


def test_a_burst_is_taken_and_then_the_rate() -> None:
    clock = [100.0]
    limit = RateLimit(Rate(burst=3, per_second=0.5), clock=lambda: clock[0])
    for _ in range(3):
        limit.take("ada")

    with pytest.raises(RateLimitedError) as refused:
        limit.take("ada")
    limit.take("bob")
    clock[0] += 2
    limit.take("ada")

    assert refused.value.retry_after_s == 2
    with pytest.raises(RateLimitedError):
        limit.take("ada")


def test_a_refused_request_does_not_put_off_the_next_one() -> None:
    clock = [0.0]
    limit = RateLimit(Rate(burst=1, per_second=0.1), clock=lambda: clock[0])
    limit.take("ada")

    for second in range(1, 10):
        clock[0] = float(second)
        with pytest.raises(RateLimitedError):
            limit.take("ada")
    clock[0] = 10.0

    limit.take("ada")


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    clock = [0.0]
    limit = RateLimit(Rate(burst=2, per_second=1.0), clock=lambda: clock[0])
    limit.take("ada")
    clock[0] += 1_000
    limit.take("ada")
    limit.take("ada")

    with pytest.raises(RateLimitedError):
        limit.take("ada")


def test_volumes_and_notes_are_limited_for_each_user(sqlite_store: Store) -> None:
    server = serve(sqlite_store, ApiLimits(notes=Rate(burst=3, per_second=0.001)))
    (_, ada), (_, bob) = server.user("ada"), server.user("bob")
    note = {"message": "m"}

    statuses = [
        server.ask("POST", "/training/volumes", ada, json={"name": "v"})[0],
        server.ask("PATCH", "/training/volumes/v", ada, json={"size": "2Ti"})[0],
        *(server.ask("POST", "/feedback", ada, json=note)[0] for _ in range(2)),
        server.ask("POST", "/training/volumes", ada, json={"name": "w"})[0],
    ]

    assert statuses == [201, 200, 200, 429, 429]
    assert server.ask("POST", "/feedback", bob, json=note)[0] == 200
