"""What a target does differently from what a run's file says, one sentence each. Pure.

Printed by `paddock plan` and by the run stack, and kept as an output of the stack.
"""

from runtime.cluster import ClusterProfile
from runtime.config import RLConfig
from runtime.launch.pods import process_notice
from runtime.launch.split import local_notices
from runtime.launch.wiring import pod_notices
from runtime.plan import RunPlan
from runtime.pod_transport import gang_notices, transport_notices


def volume_notices(profile: ClusterProfile, claim: str | None) -> list[str]:
    """Return a notice where the file server does not show the volume that a run is placed on."""
    offer = profile.kubernetes
    if claim is None or offer is None:
        return []
    files = offer.files
    if files is not None and (files.image is not None or claim in {offer.run_claim, *files.claims}):
        return []  # with an image, every volume stack has a file server of its own
    fix = "which needs a ReadWriteMany run volume" if files is None else "update both stacks"
    return [
        f"volume: no file server of {profile.name} shows claim {claim}, so logs end with the pods "
        f"and rewards are not shown: {fix}"
    ]


def resume_notices(config: RLConfig, plan: RunPlan) -> list[str]:
    """Return a notice where the file and the setting name different places to start from."""
    if plan.resume_from is None or config.resume is None:
        return []
    return [f"resume: not used, the run starts with the checkpoint of {plan.resume_from}"]


def target_notices(
    config: RLConfig, plan: RunPlan, profile: ClusterProfile | None = None
) -> list[str]:
    """Return the notices of a plan on its cluster; without one, what holds on any Kubernetes."""
    start = resume_notices(config, plan)
    if plan.target == "local":
        return [*start, *local_notices(config, plan)]
    found = [*start, *pod_notices(config, plan)]
    if profile is None:
        return found
    offer = profile.kubernetes
    number = offer.num_processes_per_node if offer is not None else None
    return [
        *found,
        *transport_notices(plan, profile),
        *gang_notices(plan, profile),
        *([process_notice(number)] if number is not None else []),
    ]
