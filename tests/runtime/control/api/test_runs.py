"""Runs over HTTP: lists, one run, stop, restart, delete."""

from dataclasses import replace

from runtime.control.app import create_app
from runtime.control.store import events, runs
from runtime.control.store.store import Store
from runtime.control.stored_services import StoredRuns
from runtime.control.values import StoredRun, User, Wish
from runtime.record import ExitDetails
from runtime.states import RunState
from tests.runtime.control.api.fake_readings import NOON
from tests.runtime.control.api.server import ApiServer, Person, TestClient


class ReconciledRuns(StoredRuns):
    """Ends what is to stop right after somebody has looked at it."""

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        super().__init__(store)
        self.store = store

    def find(self, user: User, run_id: str) -> StoredRun | None:
        """Return a run as it was before its end."""
        found = super().find(user, run_id)
        if found is not None and found.wish is Wish.STOP and not found.is_over:
            with self.store.write() as tx:
                runs.compare_and_set(tx, run_id, found.version, fence=None, state=RunState.STOPPED)
        return found


def test_a_queued_run_shows_what_is_ahead_of_it(server: ApiServer, ada: Person) -> None:
    server.dispatch(ada.token)
    run_id = server.dispatch(ada.token)

    status, answer = server.ask("GET", f"/rft/runs/{run_id}", ada.token)

    run = answer["run"]
    assert status == 200
    assert (run["id"], run["userId"], run["status"]) == (run_id, ada.user.user_id, "QUEUED")
    assert run["runsAhead"] == 1
    assert run["queueReason"] == "no cluster has 2 free GPUs"
    assert run["kind"] == "DEDICATED_FULL_FT"
    assert run["environments"] == [{"name": "reverse-text"}]
    assert (run["maxSteps"], run["batchSize"], run["gpuCount"]) == (100, 64, 2)
    assert (run["rolloutsPerExample"], run["maxTokens"], run["seqLen"]) == (8, 512, 2048)
    assert run["learningRate"] == 3e-6
    assert run["createdAt"].endswith("Z")
    assert run["errorMessage"] is None


def test_a_failed_run_says_why_without_markup(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    details = ExitDetails(component="trainer-0", exit_code=137, last_lines=("[rank0] killed",))
    reason = "trainer-0 ended: see [deployment] [/x]"
    server.change(run_id, {"state": "FAILED", "reason": reason, "exit_details": details})

    _, answer = server.ask("GET", f"/rft/runs/{run_id}", ada.token)

    run = answer["run"]
    assert run["errorMessage"] == "trainer-0 ended: see (deployment) (/x)"
    assert run["failureAnalysis"] == {
        "rootCause": "trainer-0 ended with exit code 137",
        "evidence": ["[rank0] killed"],
        "confidence": 1.0,
    }
    assert run["runsAhead"] is None


def test_lists_are_paged_newest_first(server: ApiServer, ada: Person) -> None:
    run_ids = [server.dispatch(ada.token) for _ in range(5)]

    _, answer = server.ask("GET", "/rft/runs?page=2&limit=2", ada.token)

    assert [run["id"] for run in answer["runs"]] == [run_ids[2], run_ids[1]]
    assert (answer["total"], answer["page"], answer["total_pages"]) == (5, 2, 3)


def test_an_empty_list_has_a_total(server: ApiServer, ada: Person) -> None:
    _, answer = server.ask("GET", "/rft/runs?page=1&limit=20", ada.token)

    assert answer == {"runs": [], "total": 0, "page": 1, "limit": 20, "total_pages": 0}


def test_a_team_sees_its_runs_and_mine_are_mine(
    server: ApiServer, ada: Person, bob: Person
) -> None:
    team = server.team("crew", ada.user, bob.user)
    of_team = server.dispatch(ada.token, teamId=team.team_id)
    own = server.dispatch(bob.token)

    def listed(query: str) -> set[str]:
        _, answer = server.ask("GET", f"/rft/runs{query}", bob.token)
        return {run["id"] for run in answer["runs"]}

    assert listed("") == {of_team, own}
    assert listed("?mine=true") == {own}
    assert listed(f"?team_id={team.team_id}") == {of_team}
    assert server.ask("GET", f"/rft/runs/{of_team}", bob.token)[0] == 200


def test_an_administrator_sees_all(server: ApiServer, ada: Person) -> None:
    _, admin = server.user("root", is_admin=True)
    run_id = server.dispatch(ada.token)

    _, listed = server.ask("GET", "/rft/runs", admin)

    assert [run["id"] for run in listed["runs"]] == [run_id]
    assert server.ask("GET", f"/rft/runs/{run_id}", admin)[0] == 200


def test_stop_returns_the_run_also_when_it_is_over(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    first = server.ask("PUT", f"/rft/runs/{run_id}/stop", ada.token)
    second = server.ask("PUT", f"/rft/runs/{run_id}/stop", ada.token)

    assert first == second
    assert first[0] == 200
    assert first[1]["run"]["status"] == "STOPPED"


def test_a_stop_of_a_paused_run_answers_once_it_is_stopped(server: ApiServer, ada: Person) -> None:
    services = replace(server.services, runs=ReconciledRuns(server.store))
    app = create_app(services)
    server = ApiServer(store=server.store, services=services, app=app, client=TestClient(app))
    run_id = server.dispatch(ada.token)
    server.change(run_id, {"state": RunState.PAUSED, "wish": Wish.PAUSE})

    stopped = server.ask("PUT", f"/rft/runs/{run_id}/stop", ada.token)

    assert (stopped[0], stopped[1]["run"]["status"]) == (200, "STOPPED")


def test_restart_needs_a_running_run(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    queued = server.ask("PUT", f"/rft/runs/{run_id}/restart", ada.token)
    server.change(run_id, {"state": "RUNNING"})
    running = server.ask("PUT", f"/rft/runs/{run_id}/restart", ada.token)

    assert queued == (
        409,
        {"detail": "(bold)only a RUNNING run restarts(/x), this one is QUEUED"},
    )
    assert running[0] == 200
    assert running[1]["run"]["attempt"] == 2


def test_a_deleted_run_is_gone(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    deleted = server.ask("DELETE", f"/rft/runs/{run_id}", ada.token)

    assert deleted == (200, {})
    assert server.ask("GET", f"/rft/runs/{run_id}", ada.token)[0] == 404


def test_a_run_shows_its_newest_notice_while_it_goes_on(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    with server.store.write() as tx:
        for message in ("$8.00 are spent", "$9.00 [bold] are spent"):
            events.add_event(tx, server.stored(run_id), "notice-ceiling", message=message)

    said = server.ask("GET", f"/rft/runs/{run_id}", ada.token)[1]["run"]["notice"]
    server.change(run_id, {"state": RunState.STOPPED, "ended_at": NOON})
    after = server.ask("GET", f"/rft/runs/{run_id}", ada.token)[1]["run"]["notice"]

    assert (said, after) == ("$9.00 (bold) are spent", None)
