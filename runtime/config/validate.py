"""From a table to the models, with every field error in one go, and as much as can still be judged.

When fields are wrong they are taken out and the rest is validated again, so that the rules between
fields can speak too; a rule that reads a field that was taken out stays silent.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from runtime.config.notices import Notice
from runtime.config.problems import explain
from runtime.config.rl import RLConfig
from runtime.config.schema_walk import Loc, locate
from runtime.config.spellings import Origins
from runtime.config.toml_text import Table
from runtime.errors import Problem

_MAX_PASSES = 12
_COMPONENTS = ("trainer", "orchestrator")  # the two tables that cannot be absent


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What validation found: the config (perhaps of what is left), and what is wrong."""

    config: RLConfig | None = None
    problems: list[Problem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    dropped: set[Loc] = field(default_factory=set)
    """Paths, in the table, of the values that were taken out."""


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
            if not _take_out(error, rest, outcome, origins, allow_unknown_fields):
                return outcome
    return outcome


def _take_out(
    error: ValidationError,
    rest: Table,
    outcome: Outcome,
    origins: Origins,
    allow_unknown_fields: bool,
) -> bool:
    """Record an error's problems and take its values out; False when nothing can be."""
    taken = False
    for details in error.errors(include_url=False):
        place = locate(details["loc"], RLConfig)
        written = origins.path(place.path)
        problem = explain(details, place, written=written, root=RLConfig)
        if details["type"] == "extra_forbidden" and allow_unknown_fields:
            outcome.notices.append(
                Notice(
                    code="unknown_key", path=problem.path, message="unknown key, passed on unread"
                )
            )
        elif place.path not in outcome.dropped and problem not in outcome.problems:
            _add(problem, outcome.problems)
        path = _removable(place.path, is_missing=details["type"] == "missing")
        outcome.dropped |= {place.path, path}
        taken = _remove(rest, path) or taken
    return taken


def _add(problem: Problem, problems: list[Problem]) -> None:
    """Add a problem, unless the same path already says the same."""
    if all(
        (other.loc, other.code) != (problem.loc, problem.code) or other.code == "value"
        for other in problems
    ):
        problems.append(problem)


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
