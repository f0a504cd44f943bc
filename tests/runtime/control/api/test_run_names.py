"""The name of a run: one judgement and one message, whichever client sends it."""

import pytest

from runtime.control.wire.config_text import config_text
from tests.runtime.control.api.fakes import seed_config
from tests.runtime.control.api.server import ApiServer, Person

RUNS = "/training/runs"
MESSAGE = (
    "a run's name is one line of at most 256 characters, without tabs and other control characters"
)


def answers_to(server: ApiServer, ada: Person, name: str) -> list[tuple[int, list[str]]]:
    """Return status and messages as `paddock` and `prime` get them, who send a name each its way.

    `paddock` sends the file as it stands; `prime` sends its table without the name, and that apart.
    """
    config = seed_config()
    del config["name"]
    text = config_text({**config, "name": name})
    bodies = [{"configText": text}, {"config": config, "name": name}]
    answers = [server.ask("POST", RUNS, ada.token, json=body) for body in bodies]
    return [
        (status, [f"{one['loc']} {one['message']}" for one in answer.get("problems", ())])
        for status, answer in answers
    ]


@pytest.mark.parametrize(
    "name", ["a\u00a0b", "\U0001f469\u200d\U0001f4bb", "\u540d\u524d", " ", "", "x" * 256]
)
def test_a_name_in_any_script_is_taken_from_both_clients(
    server: ApiServer, ada: Person, name: str
) -> None:
    assert answers_to(server, ada, name) == [(201, [])] * 2


@pytest.mark.parametrize("name", ["x" * 257, "a\tb", "a\nb", "a\x1bb", "a\u0085b", "a\u2028b"])
def test_a_name_that_is_no_line_is_refused_alike(server: ApiServer, ada: Person, name: str) -> None:
    assert answers_to(server, ada, name) == [(422, [f"['name'] {MESSAGE}"])] * 2


def test_half_a_surrogate_pair_in_a_name_is_refused(server: ApiServer, ada: Person) -> None:
    body = b'{"config": {}, "name": "\\ud800"}'
    headers = {"Content-Type": "application/json"}

    assert server.ask("POST", RUNS, ada.token, content=body, headers=headers)[0] == 422
