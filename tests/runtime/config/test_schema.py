"""The models against prime-rl's list of fields, their documentation, and their JSON Schema."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from runtime.config.dispatch import DispatchKeys
from runtime.config.json_schema import field_docs, json_schema
from runtime.config.rl import RLConfig
from runtime.config.schema_walk import members, strip, tables
from tests.runtime.config.examples import rows

FIELDS = rows("prime-rl-fields.jsonl")
ALL_TABLES = sorted({table for _, table in tables(RLConfig)}, key=lambda table: table.__name__)

LIMITS = ("ge", "gt", "le", "lt", "min_length")

STRICTER = {
    "deployment.gpus_per_node",
    "deployment.nodes_per_fsdp_group",
    "deployment.num_infer_gpus",
    "deployment.num_train_gpus",
    "deployment.num_train_nodes",
    "inference.vllm.gpu_memory_utilization",
    "inference.vllm.max_lora_rank",
    "inference.vllm.tensor_parallel_size",
    "max_steps",
    "seq_len",
    "trainer.model.cp",
    "trainer.model.lora.rank",
}
"""Examples of fields with a limit where prime-rl has none; where it has one, ours is the same."""

REQUIRED_OF_FROZEN_MODELS = (".teacher.base_url", ".source.base_url")
"""Declared as required here: prime-rl gives it a default and then refuses the default."""


def fields_at(path: str) -> list[FieldInfo]:
    """Return the declared fields that a path of the list may mean, one a variant."""
    found: list[FieldInfo] = []
    here: list[Any] = [RLConfig]
    for part in path.replace("[]", "").split("."):
        models = [item for item in here if isinstance(item, type) and issubclass(item, BaseModel)]
        if part == "<key>":
            continue
        found = [model.model_fields[part] for model in models if part in model.model_fields]
        here = [item for field in found for item in inner(field.annotation)]
    return found


def inner(annotation: object) -> Iterator[object]:
    for member in members(annotation):
        if get_origin(member) in (list, dict):
            yield from inner(get_args(member)[-1])
        else:
            yield strip(member)


def limits_of(field: FieldInfo) -> dict[str, Any]:
    """Return the limits of a field, those inside a union included."""
    annotated = [field, *(item for item in get_args(field.annotation))]
    metadata = [
        note
        for item in annotated
        for note in [*getattr(item, "metadata", ()), *getattr(item, "__metadata__", ())]
    ]
    flat = [inner for note in metadata for inner in getattr(note, "metadata", [note])]
    return {
        key: getattr(note, key)
        for note in flat
        for key in LIMITS
        if getattr(note, key, None) is not None
    }


def choices_of(field: FieldInfo) -> set[Any]:
    return {
        value
        for member in members(field.annotation)
        if get_origin(member) is Literal
        for value in get_args(member)
    }


def default_of(field: FieldInfo) -> object:
    """Return the default of a field in the spelling of the list."""
    if field.is_required():
        return None
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return {"table", *filter(None, [getattr(default, "type", None)])}
    if isinstance(default, dict):
        return {
            key: value.model_dump() if isinstance(value, BaseModel) else value
            for key, value in default.items()
        }
    return str(default) if isinstance(default, Path) else default


def agrees(row: dict[str, Any], field: FieldInfo) -> bool:
    theirs = row["default"]
    ours = default_of(field)
    if isinstance(theirs, dict) and "table" in theirs and isinstance(ours, set):
        theirs = {"table", *filter(None, [theirs.get("type")])}
        ours = ours if len(theirs) == 2 else {"table"}
    limits = {key: value for key, value in row["constraints"].items() if key in LIMITS}
    return (
        ours == theirs
        and field.is_required() == row["required"]
        and (type(None) in get_args(field.annotation)) == row["nullable"]
        and limits.items() <= limits_of(field).items()
        and set(row["constraints"].get("enum", ())) == choices_of(field)
    )


def test_every_field_of_prime_rl_is_mirrored():
    undeclared = [row["path"] for row in FIELDS if not fields_at(row["path"])]
    different = [
        row
        for row in FIELDS
        if not row["path"].endswith(REQUIRED_OF_FROZEN_MODELS)
        and not any(agrees(row, field) for field in fields_at(row["path"]))
    ]

    assert undeclared == []
    assert different == []


@pytest.mark.parametrize(
    "change",
    [{"default": 9}, {"required": True}, {"nullable": True}, {"constraints": {"ge": 3}}],
    ids=str,
)
def test_a_field_that_differs_is_noticed(change: dict[str, Any]):
    row = next(row for row in FIELDS if row["path"] == "orchestrator.max_off_policy_steps")

    assert any(agrees(row, field) for field in fields_at(row["path"]))
    assert not any(agrees({**row, **change}, field) for field in fields_at(row["path"]))


def test_the_list_is_whole():
    assert len({row["path"] for row in FIELDS}) == 905


@pytest.mark.parametrize("path", sorted(STRICTER))
def test_counts_have_limits_that_prime_rl_lacks(path: str):
    assert all(limits_of(field) for field in fields_at(path))


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.__name__)
def test_every_field_is_documented_under_it(table: type[BaseModel]):
    docs = field_docs(table)

    assert table.__doc__
    assert set(docs) == set(table.model_fields), "a field without a text under it"
    assert all(text.endswith((".", ")")) for text in docs.values()), docs


def test_the_json_schema_describes_every_key():
    schema = json_schema()

    assert set(RLConfig.model_fields) <= set(schema["properties"])
    undescribed = [
        (name, key)
        for name, node in [("", schema), *schema["$defs"].items()]
        for key, field in node.get("properties", {}).items()
        if "description" not in field
    ]
    assert undescribed == []


def test_the_json_schema_knows_hosted_spellings_and_dispatch_keys():
    schema = json_schema()

    assert {"name", "wandb", "image_tag", "gpu_type", "volume"} <= set(schema["properties"])
    assert "group_size" in schema["$defs"]["Train"]["properties"]
    assert {"image_tag", "gpu_type", "volume", "volume_size"} <= {
        *DispatchKeys.__dataclass_fields__
    }


def test_importing_the_config_brings_in_nothing_heavy():
    code = (
        "import sys, runtime.config, runtime.config.json_schema;"
        "print([name for name in ('torch', 'transformers', 'pulumi', 'fastapi', 'verifiers',"
        " 'renderers', 'rich', 'typer') if name in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert printed.stdout.strip() == "[]", printed.stdout + printed.stderr
