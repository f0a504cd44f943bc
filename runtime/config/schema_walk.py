"""Find one's way in the models: from a validation error's location to the user's path and field.

pydantic puts union tags and class names into its locations; a user never wrote those.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

Loc = tuple[str | int, ...]

_LABEL = re.compile(r"^function-.*, |\]+$")  # pydantic's name of a validated model in a union


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an error lies: its path in the table, and the declared type and table there."""

    path: Loc
    annotation: object
    table: type[BaseModel] | None = None
    """The model whose key the last part of the path is; None inside free dicts."""
    is_nullable: bool = False
    is_member: bool = False
    """The error is that of one type of a union of plain types."""


def locate(loc: Loc, root: type[BaseModel]) -> Place:
    """Return the place of a pydantic location below a model."""
    path: list[str | int] = []
    here: object = root
    table: type[BaseModel] | None = None
    is_nullable = is_member = False
    for part in loc:
        is_nullable = NoneType in get_args(here)
        here = strip(here)
        if isinstance(here, type) and issubclass(here, BaseModel):
            path.append(part)
            table = here
            here = _field_type(here, part)
        elif get_origin(here) in (list, dict):
            path.append(part)
            table = None
            here = get_args(here)[-1]
        elif (table_of_union := _member(here, part)) is not None:
            here = table_of_union
        else:
            is_member = True  # a type of a union, as "int" or "literal['auto']"
            break
    return Place(
        path=tuple(path),
        annotation=strip(here),
        table=table,
        is_nullable=is_nullable or NoneType in get_args(here),
        is_member=is_member,
    )


def strip(annotation: object) -> object:
    """Return a type without Annotated and without null, as far as one type is left."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        if get_origin(annotation) in (Union, UnionType):
            members = [item for item in get_args(annotation) if item is not NoneType]
            if len(members) == 1:
                annotation = members[0]
                continue
        return annotation


def members(annotation: object) -> list[object]:
    """Return the types of a union, null left out and nested unions opened; else the type itself."""
    annotation = strip(annotation)
    if get_origin(annotation) not in (Union, UnionType):
        return [annotation]
    return [
        inner for item in get_args(annotation) if item is not NoneType for inner in members(item)
    ]


def tags(annotation: object) -> list[str]:
    """Return the tags of a union of tables."""
    return [
        str(value)
        for member in members(annotation)
        if isinstance(member, type) and issubclass(member, BaseModel)
        for value in _tag_values(member)
    ]


@cache
def tables(root: type[BaseModel]) -> tuple[tuple[Loc, type[BaseModel]], ...]:
    """Return every table below a model with its path; list items and free keys are spelled "*"."""
    return tuple(_tables_of(root, ()))


def _tables_of(annotation: object, path: Loc) -> Iterator[tuple[Loc, type[BaseModel]]]:
    annotation = strip(annotation)
    if get_origin(annotation) in (list, dict):
        for item in members(get_args(annotation)[-1]):
            yield from _tables_of(item, (*path, "*"))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield path, annotation
        for name, field in annotation.model_fields.items():
            for item in members(field.annotation):
                yield from _tables_of(item, (*path, name))
        for item in members(_extra_type(annotation)):
            yield from _tables_of(item, (*path, "*"))


def _field_type(model: type[BaseModel], key: str | int) -> object:
    field = model.model_fields.get(str(key))
    if field is not None:
        return field.annotation
    return _extra_type(model)


def _extra_type(model: type[BaseModel]) -> object:
    extra = model.__annotations__.get("__pydantic_extra__")
    return get_args(extra)[-1] if extra is not None else Any


def _member(union: object, part: str | int) -> type[BaseModel] | None:
    """Return the table of a union that a location's part stands for, by tag or class name."""
    for member in members(union):
        if not (isinstance(member, type) and issubclass(member, BaseModel)):
            continue
        if part in _tag_values(member) or _LABEL.sub("", str(part)) == member.__name__:
            return member
    return None


def _tag_values(model: type[BaseModel]) -> tuple[object, ...]:
    for key in ("type", "name"):
        field = model.model_fields.get(key)
        if field is not None and get_origin(field.annotation) is Literal:
            return get_args(field.annotation)
    return ()
