"""Two users: nothing crosses, and what is another's looks as if it were not there."""

import pytest

from runtime.control.store import keys, users
from runtime.control.store.tables import members
from tests.runtime.control.api.fakes import seed_config
from tests.runtime.control.api.server import ApiServer, Person

OF_A_RUN = [
    ("GET", "/rft/runs/{run}"),
    ("PUT", "/rft/runs/{run}/stop"),
    ("PUT", "/rft/runs/{run}/restart"),
    ("DELETE", "/rft/runs/{run}"),
    ("POST", "/training/runs/{run}/pause"),
    ("POST", "/training/runs/{run}/resume"),
    ("GET", "/rft/runs/{run}/logs"),
    ("GET", "/rft/runs/{run}/env-server-logs?env_name=reverse-text"),
    ("GET", "/rft/runs/{run}/env-servers"),
    ("GET", "/rft/runs/{run}/metrics"),
    ("GET", "/rft/runs/{run}/samples?step=1"),
    ("GET", "/rft/runs/{run}/progress"),
    ("GET", "/rft/runs/{run}/distributions"),
    ("GET", "/rft/runs/{run}/checkpoints"),
    ("GET", "/billing/runs/{run}/usage"),
]
WITHOUT_A_RUN = [
    ("GET", "/rft/runs"),
    ("POST", "/training/runs"),
    ("POST", "/training/runs/prepare"),
    ("GET", "/training/available-fft-models"),
    ("GET", "/training/available-gpu-types"),
    ("GET", "/training/volumes"),
    ("POST", "/training/volumes"),
    ("PATCH", "/training/volumes/v"),
    ("DELETE", "/training/volumes/v"),
    ("GET", "/training/volumes/v/sessions"),
    ("DELETE", "/training/volumes/v/sessions/s"),
    ("GET", "/training/volumes/v/transfers"),
    ("GET", "/training/volumes/v/transfers/t"),
    ("DELETE", "/training/volumes/v/transfers/t"),
    ("GET", "/user/whoami"),
    ("POST", "/feedback"),
]
NOT_FOUND = (404, {"detail": "Run not found"})


@pytest.mark.parametrize(("method", "path"), OF_A_RUN)
def test_a_run_of_another_is_as_if_it_were_not(
    server: ApiServer, ada: Person, bob: Person, method: str, path: str
) -> None:
    run_id = server.dispatch(ada.token)
    before = server.stored(run_id)
    body = {"json": {}} if path.endswith("resume") else {}

    foreign = server.ask(method, path.format(run=run_id), bob.token, **body)
    absent = server.ask(method, path.format(run="no-such-run"), bob.token, **body)

    assert foreign == absent == NOT_FOUND
    assert server.stored(run_id) == before


@pytest.mark.parametrize("run_id", ["pending", "is-queued", "%00", "a%20b", "..%2f..", "X" * 500])
def test_no_id_makes_the_client_wait_for_a_run(server: ApiServer, ada: Person, run_id: str) -> None:
    status, answer = server.ask("GET", f"/rft/runs/{run_id}/logs", ada.token)

    assert status == 404
    assert answer["detail"] in {"Run not found", "Not Found"}


@pytest.mark.parametrize("token", ["", "pdk_unknown", "\x01", "x" * 4000])
def test_every_route_asks_for_a_key(server: ApiServer, ada: Person, token: str) -> None:
    run_id = server.dispatch(ada.token)

    answers = {
        path: server.ask(method, path.format(run=run_id), token)
        for method, path in [*OF_A_RUN, *WITHOUT_A_RUN]
    }

    assert {status for status, _ in answers.values()} == {401}
    assert all(isinstance(answer["detail"], str) for _, answer in answers.values())


def test_a_revoked_key_is_no_key(server: ApiServer, ada: Person) -> None:
    with server.store.write() as connection:
        (key,) = keys.list_keys(connection, ada.user.user_id)
        keys.revoke_key(connection, key.key_id)

    assert server.ask("GET", "/rft/runs", ada.token)[0] == 401


@pytest.mark.parametrize("exists", [True, False])
def test_a_team_of_others_is_refused_whether_it_exists_or_not(
    server: ApiServer, ada: Person, bob: Person, exists: bool
) -> None:
    team_id = server.team("crew", ada.user).team_id if exists else "cnosuchteam"
    named = {"teamId": team_id}

    answers = [
        server.ask("GET", f"/rft/runs?team_id={team_id}", bob.token),
        server.ask("GET", f"/training/available-gpu-types?team_id={team_id}", bob.token),
        server.ask("GET", f"/training/volumes?teamId={team_id}", bob.token),
        server.ask("POST", "/training/runs", bob.token, json={"config": {}, **named}),
        server.ask("POST", "/training/volumes", bob.token, json={"name": "v", **named}),
        server.ask("PATCH", "/training/volumes/v", bob.token, json={"size": "1Ti", **named}),
        server.ask("DELETE", f"/training/volumes/v?teamId={team_id}", bob.token),
    ]

    assert {status for status, _ in answers} == {403}
    assert len({answer["detail"] for _, answer in answers}) == 1


def test_lists_and_volumes_do_not_cross(server: ApiServer, ada: Person, bob: Person) -> None:
    server.dispatch(ada.token)
    server.ask("POST", "/training/volumes", ada.token, json={"name": "vol-a"})

    assert server.ask("GET", "/rft/runs", bob.token)[1]["total"] == 0
    assert server.ask("GET", "/training/volumes", bob.token) == (200, {"volumes": []})
    assert server.ask("DELETE", "/training/volumes/vol-a", bob.token)[0] == 404
    mine = server.ask("POST", "/training/volumes", bob.token, json={"name": "vol-a"})
    assert mine[0] == 201


def test_a_key_of_a_team_acts_for_the_team(server: ApiServer, ada: Person) -> None:
    team = server.team("crew", ada.user)
    with server.store.write() as connection:
        _, token = keys.add_key(
            connection, user_id=ada.user.user_id, name="team", team_id=team.team_id
        )

    run_id = server.dispatch(token)

    assert server.stored(run_id).team_id == team.team_id


def test_a_key_of_a_team_does_nothing_once_its_user_has_left(
    server: ApiServer, ada: Person, bob: Person
) -> None:
    team = server.team("crew", ada.user, bob.user)
    with server.store.write() as connection:
        _, token = keys.add_key(
            connection, user_id=bob.user.user_id, name="team", team_id=team.team_id
        )
        # as a release did that revoked no keys
        connection.execute(members.delete().where(members.c.user_id == bob.user.user_id))

    answers = [
        server.ask("GET", "/user/whoami", token),
        server.ask("GET", "/training/available-fft-models", token),
        server.ask("GET", "/training/available-gpu-types", token),
        server.ask("POST", "/training/runs", token, json={"config": seed_config()}),
        server.ask("GET", "/training/volumes", token),
        server.ask("POST", "/training/volumes", token, json={"name": "v"}),
        server.ask("PATCH", "/training/volumes/v", token, json={"size": "1Ti"}),
        server.ask("DELETE", "/training/volumes/v", token),
    ]

    assert {status for status, _ in answers} == {403}
    assert {answer["detail"] for _, answer in answers} == {
        "you are not in the team of this API key any more: use another key"
    }


def test_who_left_a_team_ends_own_runs_of_it_and_does_not_go_on(
    server: ApiServer, ada: Person, bob: Person
) -> None:
    team = server.team("crew", ada.user, bob.user)
    runs = [server.dispatch(bob.token, teamId=team.team_id) for _ in range(2)]
    for run_id in runs:
        server.change(run_id, {"state": "RUNNING"})
    with server.store.write() as connection:
        users.remove_member(connection, team.team_id, bob.user.user_id)

    refused = [
        server.ask("POST", f"/training/runs/{runs[0]}/resume", bob.token, json={}),
        server.ask("PUT", f"/rft/runs/{runs[0]}/restart", bob.token),
    ]
    paused = server.ask("POST", f"/training/runs/{runs[0]}/pause", bob.token)
    stopped = server.ask("PUT", f"/rft/runs/{runs[0]}/stop", bob.token)
    by_member = server.ask("PUT", f"/rft/runs/{runs[1]}/restart", ada.token)

    assert {status for status, _ in refused} == {403}
    assert all("a team that you are not in any more" in said["detail"] for _, said in refused)
    assert (paused[0], stopped[0], by_member[0]) == (200, 200, 200)
    assert server.stored(runs[0]).attempt == 1


@pytest.mark.parametrize("run_id", ["{run}", "no-such-run", "a b"])
def test_nobody_resumes_from_a_run_of_another(
    server: ApiServer, ada: Person, bob: Person, run_id: str
) -> None:
    resume_from = run_id.format(run=server.dispatch(ada.token))
    body = {"config": seed_config(), "resumeFrom": resume_from}

    status, answer = server.ask("POST", "/training/runs", bob.token, json=body)

    assert (status, answer["detail"]) == (400, "resumeFrom: Run not found")
    assert server.ask("GET", "/rft/runs", bob.token)[1]["total"] == 0
