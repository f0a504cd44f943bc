"""Rules about what a run is called: tables, pages and W&B show it to people.

They bind where a config enters, from any client, and not a run that was accepted before.
"""

from collections.abc import Iterator

from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.errors import Problem
from runtime.limits import MAX_RUN_NAME_CHARS
from runtime.naming import is_one_line


@rule("run.name")
def a_name_is_one_line(config: RLConfig) -> Iterator[Problem]:
    """A name is a line that can be shown, in any script; unset and empty ones are made later."""
    name = config.run.name or ""
    if len(name) > MAX_RUN_NAME_CHARS or not is_one_line(name):
        yield broken(
            "run.name",
            f"a run's name is one line of at most {MAX_RUN_NAME_CHARS} characters, without tabs "
            "and other control characters",
            fix="change it, or leave it out: one is made from sources and model",
        )


RULES = (a_name_is_one_line,)
