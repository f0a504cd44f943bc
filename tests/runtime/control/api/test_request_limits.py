"""What a request may cost: who asks comes before what, and no answer is larger than its reader."""

import json

import pytest

from runtime.control.app import MAX_SMALL_BODY_BYTES, ApiLimits
from runtime.control.errors_http import MAX_LISTED
from runtime.control.rate_limit import Rate
from runtime.control.store.store import Store
from runtime.control.wire.model import MAX_UNKNOWN_KEYS
from tests.runtime.control.api.fakes import seed_config
from tests.runtime.control.api.server import API, ApiServer, Person, serve

RUNS, VOLUMES = "/training/runs", "/training/volumes"
JSON = {"Content-Type": "application/json"}


def test_no_body_of_a_stranger_is_parsed(server: ApiServer) -> None:
    with_a_body = [
        (method.upper(), path.removeprefix(API))
        for path, methods in server.app.openapi()["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    ]

    answers = {
        (method, path): server.ask(method, path, token, content=b"{no JSON", headers=JSON)[0]
        for method, path in with_a_body
        for token in ("", "pdk_unknown")
    }

    assert len(answers) == 6
    assert set(answers.values()) == {401}


@pytest.mark.parametrize("path", [f"{RUNS}/prepare", RUNS, VOLUMES, "/feedback"])
def test_many_unknown_keys_are_one_problem(server: ApiServer, ada: Person, path: str) -> None:
    many = {f"key-{number}": 0 for number in range(10_000)}
    some = {f"key-{number}": 0 for number in range(MAX_UNKNOWN_KEYS // 2)}

    status, answer = server.ask("POST", path, ada.token, json=many)
    _, by_field = server.ask("POST", path, ada.token, json=some)

    assert status == 422
    ((entry,),) = answer.values()
    assert (entry["loc"], "10,000 keys" in entry["msg"]) == (["body"], True)
    assert ["body", "key-0"] in [entry["loc"] for entry in by_field["detail"]]


@pytest.mark.parametrize(
    ("field", "value"),
    [("env", {f"K{number}": 0 for number in range(10_000)}), ("environments", [0] * 10_000)],
)
def test_many_wrong_entries_are_one_problem(
    server: ApiServer, ada: Person, field: str, value: object
) -> None:
    body = {"config": seed_config(), field: value}

    status, answer = server.ask("POST", RUNS, ada.token, json=body)

    assert status == 422
    ((entry,),) = answer.values()
    assert (entry["loc"], "10,000 entries" in entry["msg"]) == (["body", field], True)


def test_problems_are_listed_up_to_a_number_and_then_counted(
    server: ApiServer, ada: Person
) -> None:
    wrong_values = {"configText": "a = 1", "env": dict.fromkeys(map("K{}".format, range(100)), 0)}

    _, config = server.ask("POST", RUNS, ada.token, json={"config": {"a": [None] * 1_000}})
    _, fields = server.ask("POST", RUNS, ada.token, json=wrong_values)

    assert [len(part) for part in config.values()] == [MAX_LISTED + 1] * 2
    assert config["detail"][-1]["msg"] == config["problems"][-1]["message"] == "and 950 more"
    assert len(fields["detail"]) == MAX_LISTED + 1
    assert fields["detail"][-1] == {"loc": [], "msg": "and 50 more"}


def test_only_what_holds_a_config_or_secrets_may_be_large(server: ApiServer, ada: Person) -> None:
    large = b" " * (MAX_SMALL_BODY_BYTES + 1)
    run_id = server.dispatch(ada.token)
    small = [f"{RUNS}/prepare", VOLUMES, "/feedback", f"{RUNS}/{run_id}/pause"]

    statuses = [
        server.ask("POST", path, ada.token, content=large, headers=JSON)[0]
        for path in (*small, RUNS, f"{RUNS}/{run_id}/resume")
    ]

    assert statuses == [413, 413, 413, 413, 422, 422]


def test_the_longest_note_passes_in_any_spelling(server: ApiServer, ada: Person) -> None:
    body = json.dumps({"message": "\U0001f600" * 16_384}).encode()

    assert server.ask("POST", "/feedback", ada.token, content=body, headers=JSON)[0] == 200


def test_preparations_are_limited_and_take_no_dispatch_away(sqlite_store: Store) -> None:
    server = serve(sqlite_store, ApiLimits(dispatch=Rate(burst=2, per_second=0.01)))
    _, token = server.user("ada")

    statuses = [
        server.ask("POST", f"{RUNS}/prepare", token, json={"mode": "rl"})[0] for _ in range(3)
    ]

    assert statuses == [404, 404, 429]
    assert server.ask("POST", RUNS, token, json={"config": seed_config()})[0] == 201
