"""How long a stop of a paused run waits for its end: less than `prime` waits for the answer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from runtime.control.app import create_app
from runtime.control.services import Intents, Runs
from runtime.control.store import runs
from runtime.control.store.store import Store
from runtime.control.stored_services import StoredRuns
from runtime.control.values import StoredRun, User, Wish
from runtime.states import RunState
from tests.runtime.control.api.fake_readings import NOON
from tests.runtime.control.api.fakes import FakeIntents
from tests.runtime.control.api.server import ApiServer, Person, TestClient

PRIME_WAITS_S = 30.0


@dataclass
class Clock:
    """A clock of the route, which goes on by a second at every look."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        self.now += 1.0
        return self.now


class WatchedRuns(StoredRuns):
    """Does something to a run right before somebody looks at it."""

    def __init__(self, store: Store, act: Callable[[StoredRun], None]) -> None:
        """Keep what is done; it counts the looks at runs that are being ended."""
        super().__init__(store)
        self.act = act
        self.num_looks = 0

    def find(self, user: User, run_id: str) -> StoredRun | None:
        """Return a run as it is after that."""
        found = super().find(user, run_id)
        if found is not None and found.wish in {Wish.STOP, Wish.DELETE}:
            self.num_looks += 1
            self.act(found)
        return super().find(user, run_id)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(
        "runtime.control.routes.runs.time", SimpleNamespace(monotonic=made.monotonic)
    )
    monkeypatch.setattr("runtime.control.routes.runs._POLL_S", 0.0)
    return made


def with_services(server: ApiServer, *, intents: Intents, found: Runs) -> ApiServer:
    services = replace(server.services, intents=intents, runs=found)
    app = create_app(services)
    return ApiServer(store=server.store, services=services, app=app, client=TestClient(app))


def test_a_slow_stop_leaves_less_time_to_wait(server: ApiServer, ada: Person, clock: Clock) -> None:
    class SlowIntents(FakeIntents):
        def stop(self, user: User, run_id: str) -> StoredRun:
            clock.now += 20.0  # two starts of the engine
            return super().stop(user, run_id)

    found = WatchedRuns(server.store, lambda run: None)
    server = with_services(server, intents=SlowIntents(store=server.store), found=found)
    run_id = server.dispatch(ada.token)
    server.change(run_id, {"state": RunState.PAUSED, "wish": Wish.PAUSE})

    stopped = server.ask("PUT", f"/rft/runs/{run_id}/stop", ada.token)

    assert (stopped[0], stopped[1]["run"]["status"]) == (200, "PAUSED")
    assert found.num_looks > 0
    assert clock.now < PRIME_WAITS_S


def test_a_run_that_is_deleted_meanwhile_is_waited_for_no_longer(
    server: ApiServer, ada: Person, clock: Clock
) -> None:
    def forget(run: StoredRun) -> None:
        with server.store.write() as tx:
            runs.compare_and_set(tx, run.run_id, run.version, fence=None, deleted_at=NOON)

    found = WatchedRuns(server.store, forget)
    server = with_services(server, intents=FakeIntents(store=server.store), found=found)
    run_id = server.dispatch(ada.token)
    server.change(run_id, {"state": RunState.PAUSED, "wish": Wish.PAUSE})

    stopped = server.ask("PUT", f"/rft/runs/{run_id}/stop", ada.token)

    assert stopped[0] == 200
    assert clock.now < 5.0
