"""The headless Service that gives the pods of one attempt their names. Pure."""

from infra.k8s.placed import Manifest, PlacedRun
from runtime import naming


def run_service(placed: PlacedRun) -> Manifest:
    """Return the Service; it selects by run and attempt, so that no other run's pods are in it.

    Names resolve before a pod is ready: peers look for each other while they start.
    """
    plan = placed.plan
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": placed.metadata(placed.workload),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                naming.LABEL_RUN: plan.run_id,
                naming.LABEL_ATTEMPT: str(plan.attempt),
            },
        },
    }
