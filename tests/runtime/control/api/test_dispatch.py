"""Dispatch over HTTP: what is made, what is refused before anything is made, and secrets."""

import json
import logging
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from runtime.control.app import ApiLimits
from runtime.control.rate_limit import Rate
from runtime.control.store.run_lists import RunFilter, list_runs
from runtime.control.store.store import Store
from runtime.limits import MAX_SECRET_VALUE_BYTES
from tests.runtime.control.api.fakes import FakeDispatcher, FakeIntents, seed_config
from tests.runtime.control.api.server import ApiServer, Person, serve

RUNS = "/training/runs"
CANARY = "sk-canary-4711"


def num_runs(server: ApiServer) -> int:
    """Return how many runs there are."""
    with server.store.read() as connection:
        return list_runs(connection, RunFilter(), limit=1).total


def requests_of(server: ApiServer) -> list[Any]:
    """Return what the dispatcher was asked for."""
    dispatcher = server.services.dispatcher
    assert isinstance(dispatcher, FakeDispatcher)
    return dispatcher.seen


def test_the_client_gets_an_id_a_token_and_the_price(server: ApiServer, ada: Person) -> None:
    body = {"config": seed_config(), "name": "reverse-text-hosted", "gpuType": "H200_141GB"}

    status, answer = server.ask("POST", RUNS, ada.token, json=body)

    assert status == 201
    assert answer["tokenValue"]
    assert answer["onDemand"] is True
    assert answer["gpuType"] == "H200_141GB"
    assert answer["pricePerGpuHour"] == pytest.approx(2.5)
    assert answer["estimatedCostPerHour"] == pytest.approx(5.0)
    assert server.stored(answer["runId"]).name == "reverse-text-hosted"


def test_every_field_of_the_client_reaches_the_dispatcher(server: ApiServer, ada: Person) -> None:
    team = server.team("crew", ada.user)
    earlier = server.dispatch(ada.token)
    shelf = {"name": "vol-a", "teamId": team.team_id}
    assert server.ask("POST", "/training/volumes", ada.token, json=shelf)[0] == 201
    body = {
        "config": seed_config(),
        "name": "n",
        "teamId": team.team_id,
        "imageTag": "v0.5.1",
        "gpuType": "H100_80GB",
        "volume": "vol-a",
        "wandbApiKey": "w",
        "hfToken": "h",
        "resumeFrom": earlier,
        "normalizedConfig": {"contract_version": 4},
        "env": {"OPENAI_API_KEY": CANARY},
        "environments": ["my-env==1.2"],
    }

    status, _ = server.ask("POST", RUNS, ada.token, json=body)

    assert status == 201
    request = requests_of(server)[-1]
    assert request.team_id == team.team_id
    assert (request.image_tag, request.gpu_type) == ("v0.5.1", "H100_80GB")
    assert (request.volume, request.resume_from) == ("vol-a", earlier)
    assert request.environments == ("my-env==1.2",)
    assert request.secrets == {
        "OPENAI_API_KEY": CANARY,
        "WANDB_API_KEY": "w",
        "HF_TOKEN": "h",
    }


def test_a_secret_is_in_no_log_no_answer_and_no_file(
    tmp_path: Path, sqlite_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(sqlite_store)
    _, token = server.user("ada")
    good = {"config": seed_config(), "env": {"OPENAI_API_KEY": CANARY}, "hfToken": CANARY}
    bad = [
        {**good, "env": {"PATH": CANARY}},
        {**good, "env": {"A": CANARY * (MAX_SECRET_VALUE_BYTES // len(CANARY) + 1)}},
        {**good, "env": {"A": [CANARY]}},
        {**good, "env": CANARY},
        {**good, "hfToken": {"x": CANARY}},
        {**good, "unknownField": CANARY},
        {**good, "config": None},
        {**good, "environments": [f"git+https://{CANARY}@host/x.git"]},
    ]

    answers = [server.ask("POST", RUNS, token, json=body) for body in (good, *bad)]

    assert [status for status, _ in answers] == [201, 400, 400, 422, 422, 422, 422, 400, 422]
    assert CANARY not in json.dumps(answers)
    assert CANARY not in caplog.text
    assert "OPENAI_API_KEY" in server.stored(answers[0][1]["runId"]).secret_names
    server.store.close()
    for path in tmp_path.iterdir():
        assert CANARY.encode() not in path.read_bytes()
    assert CANARY not in repr(requests_of(server))


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"orchestrator": {"train": {"env": [{"id": "x"}]}}}, "orchestrator.train.env", "source"),
        ({"max_steps": "many"}, "max_steps", "integer"),
        ({"max_stepz": 1}, "max_stepz", "max_steps"),
        ({"model": {"name": None}}, "model.name", "null"),
        ({"seq_len": 10**30}, "", "64 bits"),
    ],
)
def test_a_wrong_config_is_refused_by_field_within_a_second(
    server: ApiServer, ada: Person, change: dict[str, Any], place: str, words: str
) -> None:
    started = process_time()

    status, answer = server.ask(
        "POST", RUNS, ada.token, json={"config": {**seed_config(), **change}}
    )

    assert process_time() - started < 1
    assert status == 422
    entries = {".".join(map(str, item["loc"][2:])): item["msg"] for item in answer["detail"]}
    assert words in entries[place]
    assert num_runs(server) == 0


def test_a_config_in_the_flat_shape_says_what_to_write(server: ApiServer, ada: Person) -> None:
    config = seed_config()
    config["orchestrator"] = {"train": {"env": [{"id": "reverse-text"}]}}

    _, answer = server.ask("POST", RUNS, ada.token, json={"config": config})

    assert "[[orchestrator.train.source]]" in answer["detail"][0]["msg"]


def test_a_run_over_the_cap_is_refused_with_its_reason(server: ApiServer, ada: Person) -> None:
    deployment = {"type": "multi_node", "num_train_nodes": 20, "num_infer_nodes": 20}
    config = {**seed_config(), "deployment": deployment}

    status, answer = server.ask("POST", RUNS, ada.token, json={"config": config})

    assert status == 400
    assert "320" in answer["detail"]
    assert num_runs(server) == 0


def test_a_key_that_is_no_text_is_refused_by_field(server: ApiServer, ada: Person) -> None:
    body = b'{"config": {"half \\ud800": null}}'
    headers = {"Content-Type": "application/json"}

    status, answer = server.ask("POST", RUNS, ada.token, content=body, headers=headers)

    assert status == 422
    assert answer["problems"][0]["loc"] == ["half \ufffd"]
    assert "null" in answer["problems"][0]["message"]


def test_a_refusal_has_each_problem_apart(server: ApiServer, ada: Person) -> None:
    env = {"1BAD": "x", "PATH": "y"}

    status, answer = server.ask("POST", RUNS, ada.token, json={"config": seed_config(), "env": env})

    assert status == 400
    assert [problem["code"] for problem in answer["problems"]] == ["secret", "secret"]
    assert "PATH is reserved" in answer["detail"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ('"env": {"A": "\\ud800"}', 400),
        ('"hfToken": "\\ud800"', 400),
        (f'"env": {{"\\ud800{"A" * 200}": "x"}}', 400),
        ('"env": {"\\ud800": []}', 422),
        ('"environments": ["\\ud800"]', 422),
        ('"\\ud800": 1', 422),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(
    server: ApiServer, ada: Person, fields: str, status: int
) -> None:
    body = f'{{"config": {json.dumps(seed_config())}, {fields}}}'
    headers = {"Content-Type": "application/json"}

    answer = server.ask("POST", RUNS, ada.token, content=body, headers=headers)

    assert answer[0] == status, answer
    assert num_runs(server) == 0


@pytest.mark.parametrize("path", [RUNS, f"{RUNS}/prepare"])
@pytest.mark.parametrize("asked", [{"mode": "sft"}, {"mode": "rl", "sourceRef": "main"}])
def test_sft_and_a_branch_are_not_served(
    server: ApiServer, ada: Person, path: str, asked: dict[str, str]
) -> None:
    body = {**asked, "config": {"data": {}}} if path == RUNS else asked

    status, answer = server.ask("POST", path, ada.token, json=body)

    assert status == 400
    assert "not served" in answer["detail"]


def test_prepare_sends_the_client_on(server: ApiServer, ada: Person) -> None:
    status, answer = server.ask(
        "POST", f"{RUNS}/prepare", ada.token, json={"mode": "rl", "teamId": None}
    )

    assert status == 404
    assert "paddock plan" in answer["detail"]


def test_a_key_makes_one_run_however_often_it_is_sent(server: ApiServer, ada: Person) -> None:
    body = {"config": seed_config()}
    headers = {"Idempotency-Key": "k-1"}

    first = server.ask("POST", RUNS, ada.token, json=body, headers=headers)
    again = server.ask("POST", RUNS, ada.token, json=body, headers=headers)
    other = server.ask(
        "POST", RUNS, ada.token, json={**body, "gpuType": "H100_80GB"}, headers=headers
    )
    odd = server.ask("POST", RUNS, ada.token, json=body, headers={"Idempotency-Key": "a b"})

    assert first == again
    assert other[0] == 409
    assert odd[0] == 400
    assert num_runs(server) == 1


def test_the_text_of_the_file_is_kept_when_it_is_sent(server: ApiServer, ada: Person) -> None:
    text = "# mine\n[trainer]\n[orchestrator]\n[[orchestrator.train.source]]\nenv.id = 'x'\n"
    status, answer = server.ask("POST", RUNS, ada.token, json={"configText": text})

    assert status == 201, answer
    assert server.stored(answer["runId"]).config_text == text


def test_dispatches_are_limited_for_each_user(sqlite_store: Store) -> None:
    limits = ApiLimits(dispatch=Rate(burst=2, per_second=0.01))
    server = serve(sqlite_store, limits)
    (_, ada), (_, bob) = server.user("ada"), server.user("bob")
    body = {"config": seed_config()}

    statuses = [server.ask("POST", RUNS, ada, json=body)[0] for _ in range(3)]
    headers = {"Authorization": f"Bearer {ada}"}
    refused = server.client.post("/api/v1/training/runs", json=body, headers=headers)

    assert statuses == [201, 201, 429]
    assert 90 <= int(refused.headers["Retry-After"]) <= 100
    assert server.ask("POST", RUNS, bob, json=body)[0] == 201


def test_a_body_too_large_is_not_read(sqlite_store: Store) -> None:
    server = serve(sqlite_store, ApiLimits(max_body_bytes=10_000))
    _, token = server.user("ada")
    config = {"config": {"x": "y" * 20_000}}
    chunks = (b" " * 6_000 for _ in range(3))
    headers = {"Content-Type": "application/json"}

    declared = server.ask("POST", RUNS, token, json=config)
    streamed = server.ask("POST", RUNS, token, content=chunks, headers=headers)

    assert declared[0] == streamed[0] == 413
    assert declared[1] == streamed[1]
    assert "10,000 bytes" in declared[1]["detail"]


def test_pause_and_resume_answer_as_the_client_expects(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    early = server.ask("POST", f"{RUNS}/{run_id}/pause", ada.token)
    server.change(run_id, {"state": "RUNNING"})
    paused = server.ask("POST", f"{RUNS}/{run_id}/pause", ada.token)
    resumed = server.ask(
        "POST", f"{RUNS}/{run_id}/resume", ada.token, json={"hfToken": "h", "gpuType": "B200_180GB"}
    )

    assert early[0] == 409
    assert paused == (200, {"status": "PAUSING"})
    assert resumed[0] == 201
    assert resumed[1]["runId"] == run_id
    intents = server.services.intents
    assert isinstance(intents, FakeIntents)
    assert intents.resumed[0].secrets == {"HF_TOKEN": "h"}
    assert intents.resumed[0].gpu_type == "B200_180GB"
