"""A state backend in memory."""

from dataclasses import dataclass, field

from runtime.control.stack_facts import StackFacts
from runtime.control.stacks import ListedStack
from runtime.control.values import StoredRun

NOT_HERE = StackFacts(trouble="it is not in this server's state backend")
UNREADABLE = StackFacts(trouble="it cannot be opened: incorrect passphrase")


def facts_of(cluster: str = "east", **settings: str) -> StackFacts:
    """Return the facts of a run's stack that can be opened."""
    return StackFacts(settings={"kind": "run", "cluster": cluster, **settings})


@dataclass(kw_only=True)
class FakeStacks:
    """Stacks by name, each with what it says and how many resources it has."""

    stacks: dict[str, tuple[StackFacts, int]] = field(default_factory=dict)

    def listed(self) -> list[ListedStack]:
        """Return all of them."""
        return [
            ListedStack(name=name, updated="2026-01-01T00:00:00Z", num_resources=number)
            for name, (_, number) in self.stacks.items()
        ]

    def facts(self, stack: str) -> StackFacts:
        """Return what a test has put there."""
        return self.stacks[stack][0] if stack in self.stacks else NOT_HERE

    def owns(self, run: StoredRun) -> bool:
        """Tell whether a run's stack can be opened."""
        return self.facts(run.run_id).is_run_on(run.cluster)
