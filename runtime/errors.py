"""The error vocabulary: every error that a person or a client may see is one of these types.

A message says what, where and what to do. No message ever holds the value of a secret. They are
shown by the CLI (`runtime.cli`), the Pulumi program (`infra.__main__`) and the control plane's API.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


class PaddockError(Exception):
    """An error with a message for people, a code for programs and an exit code for shells."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong with an input, or one reason that refuses a dispatch.

    `loc` is the path of the field (`("orchestrator", "train", "source", 0, "env")`), empty for a
    rule over the whole file; `code` is stable; `message` says what is wrong and what is allowed;
    `fix` says what to do, empty where the message says it already.
    """

    loc: tuple[str | int, ...] = ()
    message: str
    fix: str = ""
    code: str = "invalid"

    @property
    def path(self) -> str:
        """Return the dotted path, list indices in brackets: `orchestrator.train.source[0].env`."""
        dotted = ""
        for part in self.loc:
            if isinstance(part, int):
                dotted += f"[{part}]"
            else:
                dotted += f".{part}" if dotted else part
        return dotted

    def __str__(self) -> str:
        """Return the problem on one line."""
        where = f"{self.path}: " if self.loc else ""
        return f"{where}{self.message}" + (f" ({self.fix})" if self.fix else "")


class ProblemsError(PaddockError):
    """An error that carries every problem found, one a field."""

    code = "invalid"
    exit_code = 2

    def __init__(self, problems: Iterable[Problem], *, source: str = "") -> None:
        """Keep the problems and the name of the file that they are in."""
        self.problems = tuple(problems)
        self.source = source
        assert self.problems, "an error without a problem"
        super().__init__(self._text())

    def _text(self) -> str:
        count = len(self.problems)
        if count == 1 and not self.source:
            return str(self.problems[0])
        head = f"{self.source or 'input'}: {count} problem{'s' if count > 1 else ''}"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


class ConfigError(ProblemsError):
    """The TOML of a run cannot be read, or does not hold to prime-rl's schema."""

    code = "config"


class SettingsError(ProblemsError):
    """A stack's settings (Pulumi.<stack>.yaml or the CLI's flags) are wrong."""

    code = "settings"


class RefusedError(ProblemsError):
    """Admission refuses the run: the config is well formed, but it cannot run here."""

    code = "refused"


class SetupError(PaddockError):
    """Something that `make setup` provides is missing or broken on this machine."""

    code = "setup"
    exit_code = 3


class StackError(PaddockError):
    """A Pulumi operation failed, or may not be done on this stack."""

    code = "stack"


class RunStateError(PaddockError):
    """The run's state does not allow what was asked."""

    code = "state"


class NotFoundError(PaddockError):
    """There is no such run, stack, component or file."""

    code = "not_found"
    exit_code = 4


class SupervisorError(PaddockError):
    """The supervisor of a local run cannot be reached, or refuses a request."""

    code = "supervisor"


class EngineError(PaddockError):
    """A component of the embedded engine cannot go on."""

    code = "engine"


class StoreError(PaddockError):
    """The control plane's database cannot be used, or refuses a write."""

    code = "store"


class ConflictError(StoreError):
    """A name is taken, or somebody else has changed what was to be changed."""

    code = "conflict"
