"""Whatever a client sends: never a 5xx, and every error in a body that the client can show.

Requests are made by schemathesis from the application's own OpenAPI document, right ones and wrong
ones, with fixed seeds; each names a run and a volume that exist.
"""

from collections.abc import Iterator

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode

from tests.runtime.control.api.server import ApiServer, Person

AS_PRINTED = ("/training/runs", "/prepare", "/pause", "/resume")
NUM_OPERATIONS = 28

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


def fuzz(operation: Operation, mode: GenerationMode, *, known: dict[str, str], token: str) -> None:
    """Send requests of one operation, its path's parameters replaced by those that exist."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Case) -> None:
        params = case.path_parameters or {}
        case.path_parameters = {**params, **{k: known[k] for k in params if k in known}}
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        check_answer(case, answer.status_code, answer.json() if answer.content else {})

    ask()


@pytest.mark.control
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_server(server: ApiServer, ada: Person, mode: GenerationMode) -> None:
    server.ask("POST", "/training/volumes", ada.token, json={"name": "vol-a"})
    operations = list(operations_of(server.app))

    for operation in operations:
        known = {"run_id": server.dispatch(ada.token), "name": "vol-a"}
        fuzz(operation, mode, known=known, token=ada.token)

    assert len(operations) >= NUM_OPERATIONS
