"""Whatever a client sends: never a 5xx, and every error in a body that the client can show.

Requests are made by schemathesis from the application's own OpenAPI document, right ones and wrong
ones, with fixed seeds; each names a run and a volume that exist. PADDOCK_FUZZ_EXAMPLES asks for so
many of an operation, other ones every time. Scripted services answer what no
run on this machine could; the services of a real server decide as `paddock serve` does.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode

from runtime.control.store.store import Store
from tests.runtime.control.api.real_services import RealServer, real_server
from tests.runtime.control.api.server import ApiServer, Person
from tests.runtime.control.operating.dispatching import config

RUNS, VOLUMES = "/training/runs", "/training/volumes"
AS_PRINTED = ("/training/runs", "/prepare", "/pause", "/resume")
NUM_OPERATIONS = 28
USUAL_EXAMPLES = 15
NUM_EXAMPLES = int(os.environ.get("PADDOCK_FUZZ_EXAMPLES", USUAL_EXAMPLES))
HALF = "\ud800"  # of a pair, which JSON can write and UTF-8 cannot
ODD_VALUES = [
    ({}, 201, ""),
    ({"name": "\U0001f600" * 50}, 201, ""),
    ({"name": "-"}, 201, ""),
    ({"name": HALF}, 422, "name"),
    ({"gpuType": "CPU"}, 201, ""),
    ({"gpuType": "H200_141GB"}, 400, "it has CPU"),
    ({"gpuType": HALF}, 422, "gpuType"),
    ({"imageTag": "a b"}, 400, "image_tag: 'a b' is not an image tag"),
    ({"imageTag": HALF}, 422, "imageTag"),
    ({"volume": "a\u00e9"}, 400, "volume: there is no volume"),
    ({"volume": HALF}, 422, "volume"),
    ({"resumeFrom": "RUN"}, 400, "its checkpoints may still change"),
    ({"resumeFrom": "RUN:-1"}, 400, "neither RUN nor RUN:STEP"),
    ({"resumeFrom": f"RUN:{'9' * 40}"}, 400, "neither RUN nor RUN:STEP"),
    ({"resumeFrom": HALF}, 422, "resumeFrom"),
    ({"env": {"A": HALF}}, 400, "env: A"),
    ({"env": {"A": "x\0"}}, 400, "env: A: value holds a NUL byte"),
    ({"hfToken": HALF}, 400, "HF_TOKEN"),
    ({"teamId": "x"}, 403, "you are not in this team"),
]
"""Fields beside a config that is admitted, and what the answer is."""


Operation = schemathesis.schemas.APIOperation


def operations_of(app: FastAPI) -> Iterator[Operation]:
    """Yield every operation of the application."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    for found in schema.get_all_operations():
        yield found.ok()


def check_answer(case: Case, status: int, body: object) -> None:
    """Assert what holds for every answer."""
    place = f"{case.method} {case.path}: {status} {body!r:.300}"
    assert status < 500, place
    assert isinstance(body, dict), place
    if status < 400:
        return
    detail = body["detail"]
    entries = detail if isinstance(detail, list) else [{"loc": [], "msg": detail}]
    for entry in entries:
        assert isinstance(entry["msg"], str), place
        assert isinstance(entry["loc"], list), place
        if not case.path.endswith(AS_PRINTED):
            assert "[" not in entry["msg"] + "".join(map(str, entry["loc"])), place


def fuzz(
    operation: Operation,
    mode: GenerationMode,
    *,
    known: dict[str, str],
    token: str,
    change: Callable[[Case], None] = lambda case: None,
) -> None:
    """Send requests of one operation, its path's parameters replaced by those that exist."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=NUM_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=NUM_EXAMPLES == USUAL_EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Case) -> None:
        params = case.path_parameters or {}
        case.path_parameters = {**params, **{k: known[k] for k in params if k in known}}
        change(case)
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        check_answer(case, answer.status_code, answer.json() if answer.content else {})

    ask()


def with_good_parts(case: Case) -> None:
    """Let a dispatch have a config that is admitted, and a volume a name that is free.

    Then their other fields are looked at.
    """
    if case.method != "POST" or not isinstance(case.body, dict):
        return
    if case.path.endswith(RUNS):
        case.body = {**case.body, "config": None, "configText": config(), "mode": "rl"}
    elif case.path.endswith(VOLUMES):
        case.body = {**case.body, "name": f"vol-{uuid4().hex}"}


@pytest.fixture
def real(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealServer]:
    """Serve the services of a real server, in a home of its own."""
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    with real_server(sqlite_store, tmp_path) as served:
        yield served


@pytest.mark.control
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_server(server: ApiServer, ada: Person, mode: GenerationMode) -> None:
    server.ask("POST", VOLUMES, ada.token, json={"name": "vol-a"})
    operations = list(operations_of(server.app))

    for operation in operations:
        known = {"run_id": server.dispatch(ada.token), "name": "vol-a"}
        fuzz(operation, mode, known=known, token=ada.token)

    assert len(operations) >= NUM_OPERATIONS


@pytest.mark.control
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_a_server_of_real_services(
    real: RealServer, mode: GenerationMode
) -> None:
    for number, operation in enumerate(operations_of(real.app)):
        person = real.person(f"user-{number}")  # whose limits no other operation has used
        real.ask("POST", VOLUMES, person.token, json={"name": "vol-a"})
        known = {"run_id": real.running(person), "name": "vol-a"}
        if operation.path.endswith("/resume"):
            real.change(known["run_id"], {"state": "PAUSED"})
        fuzz(operation, mode, known=known, token=person.token, change=with_good_parts)


def test_odd_values_of_a_dispatch_are_refused_by_field_or_taken(real: RealServer) -> None:
    ada = real.person("ada")
    run_id = real.running(ada)
    headers = {"Content-Type": "application/json"}

    for fields, status, words in ODD_VALUES:
        body = json.dumps({"configText": config(), **fields}).replace('"RUN', f'"{run_id}')
        found, answer = real.ask("POST", RUNS, ada.token, content=body, headers=headers)

        assert found == status, f"{fields}: {answer}"
        assert words in str(answer.get("detail", "")), f"{fields}: {answer}"
