"""`paddock schema`: a valid JSON Schema that takes what paddock takes, as taplo would judge it."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runtime.cli import app
from tests.runtime.config.examples import DATA, rows

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.toml"))
ACCEPTED = [
    *(DATA / row["file"] for row in rows("configs/index.jsonl")),
    *(
        DATA / "corpus" / row["file"]
        for row in rows("corpus/index.jsonl")
        if row["valid"] and not row.get("dispatch_should_refuse")
    ),
    *EXAMPLES,
]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Return what `paddock schema` prints."""
    result = CliRunner().invoke(app, ["schema"])
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> Any:  # noqa: ANN401 - jsonschema has no types here
    """Return a validator of the draft that the schema names."""
    jsonschema = pytest.importorskip("jsonschema")
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for item in node.values():
            yield from references(item)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    found = set(references(schema))
    assert found
    assert found <= {f"#/$defs/{name}" for name in schema["$defs"]}


@pytest.mark.parametrize("path", ACCEPTED, ids=[path.name for path in ACCEPTED])
def test_an_editor_marks_nothing_in_a_config_that_is_accepted(
    validator: Any,  # noqa: ANN401 - as above
    path: Path,
) -> None:
    marked = [
        (list(error.absolute_path), error.message)
        for error in validator.iter_errors(tomllib.loads(path.read_text()))
    ]

    assert marked == []


@pytest.mark.parametrize(
    "text",
    [
        '[deploymnt]\ntype = "single_node"',
        '[trainer]\n[orchestrator]\nbatch_size = "many"',
        '[trainer.optim]\ntype = "adam"\n[orchestrator]',
    ],
)
def test_an_editor_marks_a_mistake(validator: Any, text: str) -> None:  # noqa: ANN401 - as above
    assert list(validator.iter_errors(tomllib.loads(text)))
