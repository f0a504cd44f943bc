"""What a rule is, and how rule modules spell paths and problems."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from runtime.config.rl import RLConfig
from runtime.config.schema_walk import Loc
from runtime.errors import Problem

Check = Callable[[RLConfig], Iterator[Problem]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A check and the paths, without list indices, that it reads."""

    reads: tuple[Loc, ...]
    check: Check

    def reads_at(self, path: Loc) -> bool:
        """Tell whether the rule reads something at, above or below a path."""
        plain = tuple(part for part in path if not isinstance(part, int))
        return any(plain[: len(read)] == read or read[: len(plain)] == plain for read in self.reads)


def rule(*reads: str) -> Callable[[Check], Rule]:
    """Make a rule of a check that reads these dotted paths."""
    paths = tuple(tuple(read.split(".")) for read in reads)
    return lambda check: Rule(reads=paths, check=check)


def at(dotted: str, *more: str | int) -> Loc:
    """Return the location of a dotted path and what follows it."""
    return (*dotted.split("."), *more)


def broken(loc: Loc | str, message: str, *, fix: str = "") -> Problem:
    """Return the problem of a broken rule."""
    path = at(loc) if isinstance(loc, str) else loc
    return Problem(loc=path, message=message, fix=fix, code="rule")
