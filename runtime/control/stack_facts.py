"""What is known of a stack of the state backend, as values, and who knows it, as a protocol.

`runtime.control.known_stacks` implements it with the engine; nothing here runs Pulumi.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from runtime.control.stacks import ListedStack
from runtime.control.values import StoredRun


@dataclass(frozen=True, kw_only=True, slots=True)
class StackFacts:
    """What a stack was last brought up with; `trouble` says why it cannot be opened, or read."""

    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    """The plain ones, by key without the namespace."""
    trouble: str = ""

    def is_run_on(self, cluster: str | None) -> bool:
        """Tell whether it is a run's on this cluster, and can be opened."""
        is_it = self.settings.get("kind") == "run" and self.settings.get("cluster") == cluster
        return is_it and not self.trouble


class Stacks(Protocol):
    """The stacks of a server's state backend."""

    def listed(self) -> Sequence[ListedStack]:
        """Return what the backend lists; takes a start of the engine."""
        ...

    def facts(self, stack: str) -> StackFacts:
        """Return what a stack says of itself; takes two starts of the engine after a change."""
        ...

    def owns(self, run: StoredRun) -> bool:
        """Tell whether a run's stack is in this backend and can be opened, as far as was read."""
        ...


class NoStacks:
    """No state backend: whatever others made is theirs."""

    def listed(self) -> Sequence[ListedStack]:
        """Return nothing."""
        return ()

    def facts(self, stack: str) -> StackFacts:
        """Say that there is no such stack."""
        return StackFacts(trouble="this server has no state backend")

    def owns(self, run: StoredRun) -> bool:
        """Say no."""
        return False
