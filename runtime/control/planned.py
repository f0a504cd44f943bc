"""What the plan that the store keeps of a run says: its components, its checkpoints; pure."""

from dataclasses import dataclass

from pydantic import ValidationError

from runtime.control.values import StoredRun
from runtime.launch.components import build_components
from runtime.plan import plan_from_json
from runtime.pod_names import host_name, pod_key


@dataclass(frozen=True, kw_only=True, slots=True)
class RunComponent:
    """One component: where its log is below an attempt's log folder, and which pod it is."""

    name: str
    role: str
    log: str
    split: str = ""
    source: str = ""
    pod_name: str = ""
    """Host name of its pod."""
    pod_key: str = ""
    """What tells its pod from all others of the attempt; none on the local target."""


def writes_checkpoints(run: StoredRun) -> bool:
    """Tell whether a run writes checkpoints; one with a plan of another version may."""
    try:
        return plan_from_json(run.plan_json).checkpoints
    except ValidationError:
        return True


def planned_components(run: StoredRun) -> tuple[RunComponent, ...]:
    """Return the components of a run's plan, none where the plan is of another version."""
    try:
        plan = plan_from_json(run.plan_json)
    except ValidationError:
        return ()
    is_local = plan.target == "local"
    return tuple(
        RunComponent(
            name=one.name,
            role=one.role.role,
            log=one.log,
            split=one.role.split,
            source=one.role.source,
            pod_name=one.name if is_local else host_name(run.run_id, run.attempt, one),
            pod_key="" if is_local else pod_key(one),
        )
        for one in build_components(plan)
    )
