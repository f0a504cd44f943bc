"""A cluster stack as plain values, for the tests of its manifests."""

from typing import Any

from infra.k8s.adopted import AdoptedStack
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.kubernetes_profile import adopt_cluster
from tests.runtime.kubernetes.test_profile import FOUND, KUEUE

__all__ = ["FOUND", "KUEUE", "adopted_stack"]


def adopted_stack(
    found: Any = FOUND,  # noqa: ANN401 - a Discovery
    **values: Any,  # noqa: ANN401 - values of any setting
) -> AdoptedStack:
    """Return the stack `lab` with these settings."""
    settings = KubernetesClusterSettings(
        kind="cluster", target="kubernetes", **{"context": "lab", **values}
    )
    profile = adopt_cluster("lab", settings, found).profile
    return AdoptedStack(name="lab", settings=settings, profile=profile)
