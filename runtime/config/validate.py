"""From a table to the models, with every field error in one go, and as much as can still be judged.

When fields are wrong they are taken out and the rest is validated again, so that the rules between
fields can speak too; a rule that reads a field that was taken out stays silent.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from runtime.config.block import Block
from runtime.config.problems import explain
from runtime.config.rl import RLConfig
from runtime.config.schema_walk import Loc, Place, locate, members
from runtime.config.spellings import Origins
from runtime.config.toml_text import Table
from runtime.errors import Problem

MAX_PROBLEMS = 100  # more are counted, not shown
_MAX_PASSES = 12
_COMPONENTS = ("trainer", "orchestrator")  # the two tables that cannot be absent


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What validation found: the config (perhaps of what is left), and what is wrong."""

    config: RLConfig | None = None
    problems: dict[tuple[Loc, str], Problem] = field(default_factory=dict)
    """By path and kind: a shared value that is wrong is wrong in each component, and said once."""
    unknown: list[Problem] = field(default_factory=list)
    """Unknown keys, where those are allowed."""
    dropped: set[Loc] = field(default_factory=set)
    """Paths, in the table, of the values that were taken out."""
    num_unsaid: int = 0
    """Further errors, which are counted only."""


def validate(table: Table, origins: Origins, *, allow_unknown_fields: bool) -> Outcome:
    """Return the config of a table, or of what is left of it without the wrong fields."""
    outcome = Outcome()
    rest = table
    for _ in range(_MAX_PASSES):
        try:
            outcome.config = RLConfig.model_validate(rest)
            return outcome
        except ValidationError as error:
            if rest is table:
                rest = copy.deepcopy(table)
            errors = error.errors(include_url=False)
        outcome.num_unsaid += max(0, len(errors) - MAX_PROBLEMS)
        said = errors[:MAX_PROBLEMS]
        removals = [
            _note(details, outcome, origins, allow_unknown_fields=allow_unknown_fields)
            for details in said
        ]
        if outcome.num_unsaid or not any([_remove(rest, path) for path in removals]):
            return outcome
    return outcome


def _note(
    details: ErrorDetails, outcome: Outcome, origins: Origins, *, allow_unknown_fields: bool
) -> Loc:
    """Record one error and return the path of the key whose removal takes it away."""
    kind = details["type"]
    place = locate(details["loc"], RLConfig)
    written = origins.path(place.path)
    if kind == "extra_forbidden" and allow_unknown_fields:
        outcome.unknown.append(explain(details, place, written=written, root=RLConfig))
    elif place.path not in outcome.dropped and not _is_noise(details, place):
        problem = explain(details, place, written=written, root=RLConfig)
        text = problem.message if problem.code == "value" else ""
        outcome.problems.setdefault((written, f"{problem.code}{text}"), problem)
    path = _removable(place.path, is_missing=kind == "missing")
    outcome.dropped |= {place.path, path}
    return path


def _is_noise(details: ErrorDetails, place: Place) -> bool:
    """Tell whether an error only says that a table is no plain value, where a table is allowed."""
    return (
        place.is_member
        and isinstance(details.get("input"), dict)
        and any(
            isinstance(member, type) and issubclass(member, Block)
            for member in members(place.annotation)
        )
    )


def _removable(path: Loc, *, is_missing: bool) -> Loc:
    """Return the path of the key whose removal takes an error away."""
    if is_missing and len(path) > 1:
        path = path[:-1]
    while len(path) > 1 and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _remove(table: Table, path: Loc) -> bool:
    """Remove a key, or empty a component's table; False where there is nothing to remove."""
    if len(path) == 1 and path[0] in _COMPONENTS:
        was_empty = table.get(path[0]) == {}
        table[path[0]] = {}
        return not was_empty
    node: Any = table
    for part in path[:-1]:
        if isinstance(node, dict):
            node = node.get(part)
        else:
            node = node[part] if isinstance(node, list) and isinstance(part, int) else None
    if not path or not isinstance(node, dict) or path[-1] not in node:
        return False
    del node[path[-1]]
    return True
