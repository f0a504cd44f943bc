"""pydantic's errors in paddock's words: the user's path, the value, what is allowed, what to do."""

import re
from difflib import get_close_matches
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from runtime.config.renamed import advice_for
from runtime.config.schema_walk import Loc, Place, members, tables, tags
from runtime.errors import Problem

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|header|env_vars|\benv\b|auth", re.I)
_SECRET_VALUE = re.compile(
    r"^(sk-|hf_|ghp_|gho_|xox|AKIA|pul-|pit_|eyJ)|://[^/]*@|[A-Za-z0-9_\-+/=]{32,}"
)
_PLAIN_NAMES = frozenset(
    {"max_completion_tokens", "max_tokens", "tokenizer", "token_batch_size", "api_key_var",
     "max_input_tokens", "max_output_tokens", "max_total_tokens", "non_cached_tokens"}
)  # fmt: skip
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "over"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "under"),
}
_WANTED = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "path": "a path",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
}


def explain(error: ErrorDetails, place: Place, *, written: Loc, root: type[BaseModel]) -> Problem:
    """Return the problem that a pydantic error stands for; `written` is the path in the user's file."""
    kind = error["type"]
    value = error.get("input")
    if kind == "extra_forbidden":
        return _unknown_key(place, written=written, root=root)
    if kind == "missing":
        return _missing(place, written=written)
    if kind == "union_tag_not_found":
        return _problem(
            written,
            f"{_last(written)} needs a {_tag_key(error)}, one of: {', '.join(tags(place.annotation))}",
            code="missing",
        )
    if kind == "union_tag_invalid":
        return _wrong_tag(error, place, written=written)
    if kind == "value_error":
        return _problem(written, str(error["ctx"]["error"]) if "ctx" in error else error["msg"])
    shown = show(written, value)
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return _problem(written, f"{shown} is out of range, it must be {words} {error['ctx'][key]}")
    return _problem(written, f"{shown} is not {_wanted(place, kind)}", code="type")


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
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
    return str(value)


def looks_secret(path: Loc, value: object) -> bool:
    """Tell whether a value's name or look is that of a credential."""
    named = any(
        isinstance(part, str) and part not in _PLAIN_NAMES and _SECRET_NAME.search(part)
        for part in path
    )
    return named or (isinstance(value, str) and _SECRET_VALUE.search(value) is not None)


def nearest(key: str, known: list[str]) -> str:
    """Return the known key that a mistyped one is likely to mean, "" where none is near."""
    found = get_close_matches(key, known, n=1, cutoff=0.75)
    return found[0] if found else ""


def _unknown_key(place: Place, *, written: Loc, root: type[BaseModel]) -> Problem:
    key = str(_last(written))
    known = list(place.table.model_fields) if place.table is not None else []
    advice = advice_for(place.path) or advice_for(written)
    if not advice:
        near = nearest(key, known)
        advice = f"did you mean {near}?" if near else _elsewhere(key, place, root)
    return Problem(
        loc=written,
        message=f"unknown key {key[:80]}",
        fix=advice or f"known here: {', '.join(known) or 'none'}",
        code="unknown_key",
    )


def _elsewhere(key: str, place: Place, root: type[BaseModel]) -> str:
    """Say which tables do have a key that stands in the wrong one."""
    if place.path[:1] == ("deployment",):
        other = {"single_node": "multi_node", "multi_node": "single_node"}
        for path, table in tables(root):
            if path == ("deployment",) and key in table.model_fields:
                current = (
                    "single_node"
                    if place.table and place.table.__name__[0] == "S"
                    else "multi_node"
                )
                return f'{key} belongs to type = "{other[current]}"'
    found = []
    for path, table in tables(root):
        dotted = ".".join("*" if part == "*" else str(part) for part in (*path, key))
        if key in table.model_fields and path != place.path[:-1] and dotted not in found:
            found.append(dotted.replace(".*", "[]"))
    if key in ("type", "name") or not found:
        return ""
    found.sort(key=lambda dotted: (dotted.count("."), dotted))
    return f"a key of that name is {' or '.join(found[:3])}"


def _missing(place: Place, *, written: Loc) -> Problem:
    key = str(_last(written))
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
    tag = str(error["ctx"]["tag"])
    near = nearest(tag.replace("-", "_"), known) or nearest(tag.lower(), known)
    key = _tag_key(error)
    return _problem(
        (*written, key),
        f"{show(written, tag)} is not one of: {', '.join(known)}",
        fix=f'did you mean "{near}"?' if near else "",
        code="choice",
    )


def _tag_key(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("discriminator", "type")).strip("'")


def _wanted(place: Place, kind: str) -> str:
    words: list[str] = []
    for member in members(place.annotation):
        origin = get_origin(member)
        if origin is Literal:
            words += [f'"{value}"' for value in get_args(member)]
        elif isinstance(member, type) and issubclass(member, BaseModel):
            words.append("a table")
        elif origin in (list, dict):
            words.append(_WANTED[origin.__name__])
        elif isinstance(member, type):
            words.append(
                {"str": "a text", "Path": "a path"}.get(
                    member.__name__, _WANTED.get(member.__name__, "")
                )
            )
    known = [word for word in dict.fromkeys(words) if word]
    return " or ".join(known) or _WANTED.get(kind.split("_")[0], "allowed here")


def _last(path: Loc) -> str | int:
    return path[-1] if path else ""


def _problem(loc: Loc, message: str, *, fix: str = "", code: str = "value") -> Problem:
    return Problem(loc=loc, message=message, fix=fix, code=code)
