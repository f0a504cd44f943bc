"""Rules between fields: what the schema of single fields cannot say.

A rule is a function from a config to problems, with the paths that it reads; it stays silent when
one of those was wrong by itself. All rules speak, so one answer names all that is to be changed.
"""

from collections.abc import Iterable

from runtime.config.rl import RLConfig
from runtime.config.rules import (
    agreement,
    credentials,
    names,
    placing,
    rollouts,
    safety,
    serving,
    tasksets,
    training,
)
from runtime.config.schema_walk import Loc
from runtime.errors import Problem

RULES = (
    *placing.RULES,
    *training.RULES,
    *rollouts.RULES,
    *serving.RULES,
    *agreement.RULES,
    *safety.RULES,
    *tasksets.RULES,
)

NEW_RULES = (*RULES, *credentials.RULES, *names.RULES)
"""The rules for a config that nobody has accepted yet."""


def broken_rules(
    config: RLConfig, dropped: Iterable[Loc] = (), *, is_stored: bool = False
) -> list[Problem]:
    """Return the problems of all rules that read nothing below or above a dropped path.

    A config that `is_stored` was accepted before, perhaps by an earlier release.
    """
    gone = list(dropped)
    return [
        problem
        for rule in (RULES if is_stored else NEW_RULES)
        if not any(rule.reads_at(path) for path in gone)
        for problem in rule.check(config)
    ]
