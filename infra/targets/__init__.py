"""The targets: one module each, all with declare_cluster, declare_volume and declare_run.

To add one: a module here, a line in TARGETS, its tests, and what CONTRIBUTING.md says of runtime. A
stack loads the module of its own target only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from infra.run_inputs import RunInputs
    from infra.settings import StackSettings
    from runtime.cluster import ClusterProfile
    from runtime.stack_settings import VolumeSettings

TARGETS = {"local": "infra.targets.local", "kubernetes": "infra.targets.kubernetes"}

Outputs = dict[str, Any]  # Any: pulumi.Input values of stack outputs


class Target(Protocol):
    """What a target's module declares; each function returns the outputs of the stack."""

    def declare_cluster(
        self,
        settings: "StackSettings",
        body: Any,  # noqa: ANN401 - the target's own kind of ClusterSettings
    ) -> Outputs:
        """Declare a cluster and export its ClusterProfile."""
        ...

    def declare_volume(
        self, settings: "StackSettings", body: "VolumeSettings", profile: "ClusterProfile"
    ) -> Outputs:
        """Declare storage that outlives runs."""
        ...

    def declare_run(self, run: "RunInputs") -> Outputs:
        """Declare a run."""
        ...


def find_target(name: str) -> Target:
    """Return the module of a target."""
    return cast(Target, import_module(TARGETS[name]))  # a module has no type of its own
