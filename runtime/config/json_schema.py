"""The JSON Schema of a run's file, for editors: taplo completes keys and shows their texts.

Fields are documented by the text under them, which is read from the source only here, since that
takes longer than all else about the models. Hosted spellings and dispatch keys are part of it.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from runtime.config.rl import RLConfig
from runtime.config.schema_walk import tables
from runtime.config.spellings import SPELLINGS

JsonSchema = dict[str, Any]  # a JSON document

_DISPATCH_DOCS = {
    "image_tag": "Tag of prime-rl's image to run; the flag --image-tag wins.",
    "gpu_type": "GPU type to run on, as H200_141GB; the flag --gpu-type wins, unset = picked.",
    "volume": "Volume that the run's files and models lie on; the flag --volume wins.",
    "volume_size": "Size of that volume where it is made by the dispatch, as 1Ti.",
}


_TRUE_FOR_A_TABLE = (("trainer", "model", "full_offload"),)
"""Tables that prime-rl also takes as true (all defaults) or false (none)."""


def json_schema() -> JsonSchema:
    """Return the schema of a file, hosted spellings and dispatch keys included."""
    schema = RLConfig.model_json_schema(by_alias=False)
    definitions = schema.setdefault("$defs", {})
    for model in {table for _, table in tables(RLConfig)}:
        node = schema if model is RLConfig else definitions.get(model.__name__)
        if node is not None:
            _describe(node, model)
    for key, text in _DISPATCH_DOCS.items():
        schema["properties"][key] = {"type": "string", "description": text}
    for spelling in SPELLINGS:
        _add_spelling(schema, spelling.hosted, spelling.native)
    for path in _TRUE_FOR_A_TABLE:
        _properties(schema, path[:-1])[path[-1]]["anyOf"].append({"type": "boolean"})
    _speak_toml(schema)
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"  # the draft that taplo reads
    schema["title"] = "paddock run config (prime-rl RL)"
    return schema


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the text under each field of a model, those of its parents included."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            found |= _docs_of_module(sys.modules[parent.__module__]).get(parent.__name__, {})
    return {key: text for key, text in found.items() if key in model.model_fields}


@cache
def _docs_of_module(module: ModuleType) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(module))
    return {
        node.name: dict(_docs_of_class(node))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _docs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, inspect.cleandoc(str(text.value.value)).replace("\n", " ")


def _speak_toml(node: object) -> None:
    """Spell null as the text "None", and let a union's `type` be left out, as the file may."""
    if isinstance(node, list):
        for item in node:
            _speak_toml(item)
    if not isinstance(node, dict):
        return
    if node.get("type") == "null":
        node.pop("type")
        node["const"] = "None"
    if node.get("default", "") is None:
        node.pop("default")
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
        node.pop("discriminator", None)
    for item in node.values():
        _speak_toml(item)


def _describe(node: JsonSchema, model: type[BaseModel]) -> None:
    docs = field_docs(model)
    for key, field in node.get("properties", {}).items():
        if key in docs:
            field["description"] = docs[key]


def _add_spelling(schema: JsonSchema, hosted: tuple[str, ...], native: tuple[str, ...]) -> None:
    target = _properties(schema, native[:-1])[native[-1]]
    note = f"The hosted spelling of {'.'.join(native)}."
    _properties(schema, hosted[:-1])[hosted[-1]] = {**target, "description": note}


def _properties(schema: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
    node = schema
    for part in path:
        child = node["properties"][part]
        references = [child, *child.get("anyOf", [])]
        name = next(item["$ref"] for item in references if "$ref" in item).rsplit("/", 1)[-1]
        node = schema["$defs"][name]
    return node["properties"]
