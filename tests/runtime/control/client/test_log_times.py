"""`train logs --since` asks for every line since a time, though the asking takes a while."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.client.test_runs import reads

pytestmark = pytest.mark.control

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()
LATENCY_S = 1.0


@pytest.fixture
def asked(as_ada: Paddock, api: ApiServer, run_id: str) -> Callable[[str], int]:
    """Return how many seconds the server is asked for, by what is said to --since."""

    def ask(since: str) -> int:
        as_ada.train("logs", run_id, "--since", since)
        [query] = reads(api).log_queries
        assert query.since_s is not None
        return query.since_s

    return ask


@pytest.mark.parametrize("part_s", [0.0, 0.4])
@pytest.mark.parametrize("since", ["2026-12-01", "2026-12-01T11:59:59"])
def test_no_line_since_a_point_in_time_is_lost_on_the_way(
    asked: Callable[[str], int], monkeypatch: pytest.MonkeyPatch, since: str, part_s: float
) -> None:
    clock = SimpleNamespace(time=lambda: NOON + part_s)
    monkeypatch.setattr("runtime.commands.remote.logs.time", clock)

    since_s = asked(since)

    begin = datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()
    missed_s = (NOON + part_s + LATENCY_S - since_s) - begin
    assert -3.0 < missed_s <= 0.0


@pytest.mark.parametrize(("since", "asked_s"), [("1h", 3600), ("90", 90), ("0.2s", 1)])
def test_a_time_that_has_passed_is_asked_for_as_it_was_given(
    asked: Callable[[str], int], since: str, asked_s: int
) -> None:
    assert asked(since) == asked_s
