"""The hosted service's spellings of prime-rl keys, as a table, and where each value came from.

They are applied to the parsed table before it is validated; the text stays as the user wrote it.
"""

from dataclasses import dataclass, field

from runtime.config.notices import Notice
from runtime.config.toml_text import Table
from runtime.errors import Problem

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """A key that the hosted documentation spells otherwise than prime-rl."""

    hosted: Path
    native: Path


SPELLINGS = (
    Spelling(hosted=("name",), native=("run", "name")),
    Spelling(hosted=("orchestrator", "train", "group_size"), native=("orchestrator", "group_size")),
    Spelling(hosted=("wandb",), native=("monitors", "wandb")),
    Spelling(hosted=("trainer", "wandb"), native=("trainer", "monitors", "wandb")),
    Spelling(hosted=("orchestrator", "wandb"), native=("orchestrator", "monitors", "wandb")),
)


@dataclass(kw_only=True, slots=True)
class Origins:
    """Where the values of moved and copied keys stand in the user's file, by their new path."""

    written: dict[Path, Path] = field(default_factory=dict)

    def path(self, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Return the path in the user's file of a path in the table."""
        for length in range(len(loc), 0, -1):
            origin = self.written.get(loc[:length])  # type: ignore[arg-type]  # an index never matches
            if origin is not None:
                return self.path(origin) + loc[length:]
        return loc


def apply_spellings(table: Table, origins: Origins) -> tuple[list[Notice], list[Problem]]:
    """Move hosted keys of a table to prime-rl's places and return what was moved, and conflicts."""
    notices: list[Notice] = []
    problems: list[Problem] = []
    for spelling in SPELLINGS:
        parent = lookup(table, spelling.hosted[:-1])
        if not isinstance(parent, dict) or spelling.hosted[-1] not in parent:
            continue
        hosted, native = ".".join(spelling.hosted), ".".join(spelling.native)
        value = parent.pop(spelling.hosted[-1])
        target = _table_at(table, spelling.native[:-1])
        if target is None or target.get(spelling.native[-1], value) != value:
            problems.append(
                Problem(
                    loc=spelling.hosted,
                    message=f"{hosted} and {native} are two spellings of one key and disagree",
                    fix=f"keep {native}",
                    code="conflict",
                )
            )
            continue
        target[spelling.native[-1]] = value
        origins.written[spelling.native] = spelling.hosted
        notices.append(Notice(code="spelling", path=hosted, message=f"read as prime-rl's {native}"))
    deployment = table.get("deployment")
    multi_node = isinstance(deployment, dict) and deployment.get("type") == "multi_node"
    if multi_node and "slurm" not in table:
        notices.append(
            Notice(
                code="spelling",
                path="deployment",
                message="multi_node without [slurm]: prime-rl itself would ask for that table",
            )
        )
    return notices, problems


def lookup(table: Table, path: Path) -> object:
    """Return the value at a path, None where there is none."""
    node: object = table
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def _table_at(table: Table, path: Path) -> Table | None:
    node = table
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            return None
    return node
