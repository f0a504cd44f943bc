"""pydantic's errors in paddock's words: the user's path, the value, what is allowed, what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from runtime.config.renamed import advice_for
from runtime.config.schema_walk import Loc, Place, members, tables, tags
from runtime.errors import Problem

_SECRET_NAME = re.compile(r"key$|token$|secret|passw|credential|auth", re.IGNORECASE)
_SECRET_TABLES = ("env", "env_vars", "headers", "prefill_env_vars", "decode_env_vars")
_SECRET_VALUE = re.compile(
    r"^(sk-|hf_|ghp_|gho_|xox|AKIA|pul-|pit_|eyJ)|://[^/]*@|[A-Za-z0-9_\-+/=]{32,}"
)
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "over"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "under"),
}
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "Path": "a path",
    "list": "a list",
    "dict": "a table",
}
_MAX_SHOWN = 60


def explain(error: ErrorDetails, place: Place, *, written: Loc, root: type[BaseModel]) -> Problem:
    """Return the problem of a pydantic error; `written` is its path in the user's file."""
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(place, written=written, root=root)
    if kind == "missing":
        return _missing(written)
    if kind == "union_tag_not_found":
        key = _tag_key(error)
        return _problem(
            written,
            f"{written[-1]} needs a {key}, one of: {', '.join(tags(place.annotation))}",
            fix=f'write {key} = "..."',
            code="missing",
        )
    if kind == "union_tag_invalid":
        return _wrong_tag(error, place, written=written)
    if kind == "value_error":
        return _problem(written, str(context.get("error", error["msg"])))
    shown = show(written, error.get("input"))
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return _problem(written, f"{shown} is out of range, it must be {words} {context[key]}")
    if kind == "too_short":
        return _problem(written, "the list is empty, it needs at least one entry")
    if kind == "too_long":
        return _problem(written, f"over {context['max_length']} entries")
    if kind == "finite_number":
        return _problem(written, f"{shown} is not a finite number")
    fix = ""
    if kind == "list_type" and isinstance(error.get("input"), dict):
        fix = f"write double brackets: [[{'.'.join(map(str, written))}]]"
    elif isinstance(error.get("input"), str) and str(error["input"]).lower() in ("none", "null"):
        fix = 'null is spelled "None"' if place.is_nullable else "it cannot be null"
    return _problem(written, f"{shown} is not {_wanted(place)}", fix=fix, code="type")


def show(path: Loc, value: object) -> str:
    """Return a value for a message, without what might be a secret."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return '"None"'
    if isinstance(value, bool):
        return str(value).lower()
    if looks_secret(path, value):
        return "the value (not shown)"
    text = str(value)
    text = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    return f'"{text}"' if isinstance(value, str) else text


def looks_secret(path: Loc, value: object) -> bool:
    """Tell whether a value's name, table or look is that of a credential."""
    named = [part for part in path if isinstance(part, str)]
    if named and _SECRET_NAME.search(named[-1]):
        return True
    if len(path) > 1 and path[-2] in _SECRET_TABLES and isinstance(value, str):
        return True
    return isinstance(value, str) and _SECRET_VALUE.search(value) is not None


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the known key that a mistyped one is likely to mean, "" where none is near."""
    found = get_close_matches(key, list(known), n=1, cutoff=0.75)
    return found[0] if found else ""


def _unknown_key(place: Place, *, written: Loc, root: type[BaseModel]) -> Problem:
    key = str(written[-1])
    known = list(place.table.model_fields) if place.table is not None else []
    advice = advice_for(place.path) or advice_for(written)
    advice = advice or _other_deployment(key, place, root)
    if not advice:
        near = nearest(key, known)
        advice = f"did you mean {near}?" if near else _elsewhere(key, place, root)
    return Problem(
        loc=written,
        message=f"unknown key {key[:_MAX_SHOWN]}",
        fix=advice or f"known here: {', '.join(known) or 'none'}",
        code="unknown_key",
    )


def _other_deployment(key: str, place: Place, root: type[BaseModel]) -> str:
    """Say which deployment type has a key that the chosen one lacks."""
    if place.path[:-1] != ("deployment",):
        return ""
    for path, table in tables(root):
        if path == ("deployment",) and key in table.model_fields:
            return f'{key} belongs to [deployment] type = "{table.model_fields["type"].default}"'
    return ""


def _elsewhere(key: str, place: Place, root: type[BaseModel]) -> str:
    """Say which tables do have a key that stands in the wrong one."""
    if key in ("type", "name", "id"):
        return ""
    dotted = (
        ".".join(map(str, (*path, key))).replace(".*", "[]")
        for path, table in tables(root)
        if key in table.model_fields and path != place.path[:-1]
    )
    found = {path for path in dotted if ".env[]" not in path}  # seats say the same as env.agent
    nearest_first = sorted(found, key=lambda dotted: (dotted.count("."), dotted))
    return f"there is {' and '.join(nearest_first[:3])}" if found else ""


def _missing(written: Loc) -> Problem:
    key = str(written[-1])
    if written in (("trainer",), ("orchestrator",)):
        return _problem(
            written,
            f"the table [{key}] is missing",
            fix=f"write [{key}], an empty table is enough",
            code="missing",
        )
    return _problem(written, f"{key} is missing", fix=f"write {key} = ...", code="missing")


def _wrong_tag(error: ErrorDetails, place: Place, *, written: Loc) -> Problem:
    known = tags(place.annotation)
    key = _tag_key(error)
    tag = str(error.get("ctx", {}).get("tag", ""))
    near = nearest(tag.lower().replace("-", "_"), known) or nearest(tag.lower(), known)
    return _problem(
        (*written, key),
        f"{show((key,), tag)} is not one of: {', '.join(known)}",
        fix=f'did you mean "{near}"?' if near else "",
        code="choice",
    )


def _tag_key(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("discriminator", "type")).strip("'")


def _wanted(place: Place) -> str:
    words = []
    for member in members(place.annotation):
        if get_origin(member) is Literal:
            words += [f'"{value}"' for value in get_args(member)]
        elif isinstance(member, type) and issubclass(member, BaseModel):
            words.append("a table")
        else:
            named = getattr(get_origin(member) or member, "__name__", "")
            words.append(_WORDS.get(named, ""))
    known = [word for word in dict.fromkeys(words) if word]
    return " or ".join(known) or "allowed here"


def _problem(loc: Loc, message: str, *, fix: str = "", code: str = "value") -> Problem:
    return Problem(loc=loc, message=message, fix=fix, code=code)
