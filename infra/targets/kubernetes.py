"""The kubernetes target: pods of a cluster that is there; clusters and volumes are next door."""

from typing import Any

from infra.run_inputs import RunInputs
from infra.targets.kubernetes_cluster import declare_cluster, declare_volume
from runtime.errors import StackError

__all__ = ["declare_cluster", "declare_run", "declare_volume"]

Outputs = dict[str, Any]  # Any: pulumi.Input values of stack outputs


def declare_run(run: RunInputs) -> Outputs:
    """Declare a run: its RunSpec, then its objects on the cluster."""
    raise StackError(f"run {run.plan.run_id}: no run stacks on kubernetes in this version")
