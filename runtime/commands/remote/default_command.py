"""A group of commands with one that needs no name: `paddock train rl.toml` beside `train list`.

A first word that is no command of the group is the file. A file that is called as a command is
reached by its path: `paddock train ./list`.
"""

from typing import Any

from typer.core import TyperGroup

DEFAULT = "run"
"""The command whose name may be left out; hidden, and itself callable."""

HELP = ("--help", "-h")
"""What asks for help instead of naming a file, the short one as `prime` has it."""


class DefaultCommandGroup(TyperGroup):
    """Puts the default command before words that begin with none of the group's commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Return the words left after the group's own options."""
        if args and args[0] not in self.commands and args[0] not in HELP:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)
