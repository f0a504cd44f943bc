"""What an observation means for a run: the transition that follows from it, as a pure function.

Used by the supervisor while it lives and by whoever waits for a run whose supervisor died. The
facts come from `runtime.observe.local`; the transition is written by the caller.
"""

from dataclasses import dataclass
from enum import StrEnum

from runtime import naming
from runtime.processes import ProcessId
from runtime.record import RunRecord
from runtime.states import RunState, may_follow


class ComponentState(StrEnum):
    """Where a component is."""

    RUNNING = "running"
    """Its wrapper lives and has recorded no end."""
    COMPLETED = "completed"
    """It exited by itself with code 0, at a time when it may."""
    FAILED = "failed"
    """It exited by itself in any other way."""
    ENDED = "ended"
    """It was told to end."""
    LOST = "lost"
    """Its wrapper is gone without having recorded an end."""


QUIET_TRAINER_S = 60.0
"""How long the orchestrator may go on after a trainer that ended before the last step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentStatus:
    """One component as its status file and /proc show it; times are Unix times in seconds."""

    name: str
    state: ComponentState
    log: str
    wrapper: ProcessId
    process: ProcessId | None = None
    start: float
    heartbeat: float
    end: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    end_mark: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What is seen of one attempt at one moment.

    `processes` are all processes of the attempt, the supervisor left out; `last_step` is the last
    step in the metrics file.
    """

    time: float
    components: tuple[ComponentStatus, ...]
    is_supervised: bool
    processes: frozenset[ProcessId] = frozenset()
    last_step: int | None = None

    def component(self, name: str) -> ComponentStatus | None:
        """Return a component by its name, None when it has not started."""
        return next((one for one in self.components if one.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanFacts:
    """What the judge needs of a plan: the components that must start, and the last step."""

    components: tuple[str, ...] = ()
    max_steps: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """A state that follows, why, and the component that a failure is named after."""

    state: RunState
    reason: str = ""
    component: ComponentStatus | None = None


def judge(observation: Observation, record: RunRecord, plan: PlanFacts) -> Transition | None:
    """Return the transition that the observation calls for, None while nothing changes."""
    if record.is_over:
        return None
    transition = (
        _failure(observation)
        or _completion(observation, plan)
        or _quiet_trainer(observation, plan)
        or _orphaned(observation)
        or _progress(observation, plan)
    )
    if transition is None or not may_follow(record.state, transition.state):
        return None
    return transition


def _failure(observation: Observation) -> Transition | None:
    states = {ComponentState.FAILED}
    if observation.is_supervised:
        states.add(ComponentState.LOST)
    orchestrator = observation.component(naming.ORCHESTRATOR)
    is_finishing = orchestrator is not None and orchestrator.state is ComponentState.COMPLETED
    broken = [
        one
        for one in observation.components
        if one.state in states
        # a server may stumble over the end of its only client
        and not (is_finishing and not one.name.startswith((naming.ORCHESTRATOR, naming.TRAINER)))
    ]
    if not broken:
        return None
    first = min(broken, key=lambda one: one.end or one.heartbeat)
    why = first.reason or "was lost: its wrapper is gone"
    return Transition(state=RunState.FAILED, reason=f"{first.name} {why}", component=first)


def _completion(observation: Observation, plan: PlanFacts) -> Transition | None:
    orchestrator = observation.component(naming.ORCHESTRATOR)
    if orchestrator is None or orchestrator.state is not ComponentState.COMPLETED:
        return None
    if not orchestrator.end_mark and not _all_steps_done(observation, plan):
        done = "no step" if observation.last_step is None else f"step {observation.last_step}"
        last = "" if plan.max_steps is None else f" of {plan.max_steps}"
        return Transition(
            state=RunState.FAILED,
            reason=f"orchestrator {orchestrator.reason or 'exited with code 0'}, "
            f"at {done}{last} and without its end mark",
            component=orchestrator,
        )
    for trainer in observation.components:
        if not trainer.name.startswith(naming.TRAINER):
            continue
        if trainer.state is ComponentState.ENDED:
            return Transition(
                state=RunState.FAILED,
                reason=f"all steps are done, but {trainer.name} did not end by itself "
                f"after the orchestrator ({trainer.reason}): its last checkpoint may be missing",
                component=trainer,
            )
        if trainer.state is not ComponentState.COMPLETED:
            return None
    return Transition(state=RunState.COMPLETED)


def _quiet_trainer(observation: Observation, plan: PlanFacts) -> Transition | None:
    """Return the failure of a trainer that ended too early, for which all others would wait."""
    if plan.max_steps is None or observation.last_step is None:
        return None
    if observation.last_step >= plan.max_steps:
        return None
    for one in observation.components:
        if not one.name.startswith(naming.TRAINER) or one.state is not ComponentState.COMPLETED:
            continue
        if one.end is not None and observation.time - one.end > QUIET_TRAINER_S:
            return Transition(
                state=RunState.FAILED,
                reason=f"{one.name} {one.reason or 'exited with code 0'}, "
                f"at step {observation.last_step} of {plan.max_steps}",
                component=one,
            )
    return None


def _all_steps_done(observation: Observation, plan: PlanFacts) -> bool:
    if plan.max_steps is None or observation.last_step is None:
        return False
    return observation.last_step >= plan.max_steps


def _orphaned(observation: Observation) -> Transition | None:
    if observation.is_supervised:
        return None
    names = ", ".join(one.name for one in observation.components)
    started = f"{names} had started" if names else "no component had started"
    return Transition(state=RunState.FAILED, reason=f"the run's supervisor died; {started}")


def _progress(observation: Observation, plan: PlanFacts) -> Transition | None:
    started = {one.name for one in observation.components}
    if not started:
        return None
    if plan.components and started.issuperset(plan.components):
        return Transition(state=RunState.RUNNING)
    return Transition(state=RunState.CREATING)
