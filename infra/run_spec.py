"""RunSpec: the resource that every other resource of a run depends on; it carries the lifecycle.

A thin dynamic provider: `check` refuses a changed config on a live run and a run that is over,
`create` claims the run's place, `update` moves to a later attempt, `delete` ends whatever the run
still owns. Its inputs are digests and plain settings, never TOML text or a secret: the engine
prints a refused value. This module is never moved or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    Resource,
    UpdateResult,
)

from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over


class RunSpecProvider(Provider):
    """The provider of RunSpec; one class for all targets."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuse changed settings of a live run, and a run that is over at this attempt."""
        from runtime.run_rules import refusal

        reason = refusal(_olds, news)
        # no property name: the engine would print the property's value
        return CheckResult(news, [CheckFailure("", reason)] if reason else [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Report a later attempt as an update; nothing else of a RunSpec ever changes."""
        return DiffResult(changes=_olds.get("attempt") != _news.get("attempt"))

    def create(self, props: Props) -> CreateResult:
        """Claim the run's place and open its record."""
        from runtime.run_rules import place_attempt

        outputs = place_attempt(props)
        return CreateResult(props["runId"], outs={**props, **outputs})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """End the old attempt's workloads and free its place, then begin the new attempt."""
        from runtime.run_rules import end_attempt, place_attempt

        end_attempt(_olds, reason=f"ended for attempt {int(_news['attempt'])}")
        outputs = place_attempt(_news)
        return UpdateResult(outs={**_news, **outputs})

    def delete(self, _id: str, _props: Props) -> None:
        """End everything that the run still owns, and write its terminal record."""
        from runtime.run_rules import destroy_run

        destroy_run(_props)


class RunSpec(Resource, module="paddock", name="RunSpec"):
    """The identity, placement and attempt of a run; on Kubernetes also its pods' image."""

    image: pulumi.Output[str]
    notice: pulumi.Output[str]

    def __init__(self, run_id: str, inputs: Props, *, outputs: tuple[str, ...] = ()) -> None:
        """Declare the run; the secret digest among `inputs` stays encrypted in the state.

        `outputs` name what the target's `place_attempt` returns.
        """
        super().__init__(
            RunSpecProvider(),
            run_id,
            {**inputs, **dict.fromkeys(outputs)},
            pulumi.ResourceOptions(additional_secret_outputs=["envDigest"]),
        )
