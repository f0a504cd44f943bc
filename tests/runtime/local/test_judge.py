"""What is seen of a run decides its state; a table of observations and verdicts."""

import pytest

from runtime.observe.judge import (
    ComponentState,
    ComponentStatus,
    Observation,
    PlanFacts,
    judge,
)
from runtime.processes import ProcessId
from runtime.record import RunRecord
from runtime.states import RunState

NAMES = ("inference-0", "env-train-math", "orchestrator", "trainer-0")
PLAN = PlanFacts(components=NAMES, max_steps=100)


def component(name: str, state: str = "running", **changed: object) -> ComponentStatus:
    facts: dict[str, object] = {
        "name": name,
        "state": ComponentState(state),
        "log": f"{name}.log",
        "wrapper": ProcessId(2, 2),
        "start": 1.0,
        "heartbeat": 2.0,
    }
    return ComponentStatus(**(facts | changed))  # pyright: ignore[reportArgumentType]  # a table


def seen(
    *changed: ComponentStatus, is_supervised: bool = True, last_step: int | None = None
) -> Observation:
    components = {name: component(name) for name in NAMES} | {one.name: one for one in changed}
    return Observation(
        time=10.0,
        components=tuple(components.values()),
        is_supervised=is_supervised,
        last_step=last_step,
    )


def record(state: RunState = RunState.RUNNING) -> RunRecord:
    return RunRecord(run_id="run-one", config_digest="d", attempt=1, state=state)


DONE = component("orchestrator", "completed", exit_code=0, end_mark=True)
QUIET = component("orchestrator", "completed", exit_code=0)
TRAINED = component("trainer-0", "completed", exit_code=0)
EARLY = component("trainer-0", "completed", exit_code=0, end=-60.0)
KILLED = component("inference-0", "failed", signal="SIGKILL", reason="was killed by SIGKILL", end=5)


@pytest.mark.parametrize(
    ("observation", "state", "reason"),
    [
        (seen(KILLED), "FAILED", "inference-0 was killed by SIGKILL"),
        (
            seen(KILLED, component("trainer-0", "failed", reason="exited with code 1", end=4)),
            "FAILED",
            "trainer-0 exited with code 1",
        ),
        (seen(component("trainer-0", "lost")), "FAILED", "trainer-0 was lost"),
        (seen(DONE, TRAINED), "COMPLETED", ""),
        (seen(QUIET, TRAINED, last_step=100), "COMPLETED", ""),
        (
            seen(QUIET, TRAINED, last_step=41),
            "FAILED",
            "at step 41 of 100 and without its end mark",
        ),
        (seen(QUIET), "FAILED", "at no step of 100"),
        (seen(DONE, component("trainer-0", "ended")), "FAILED", "all steps are done, but"),
        (seen(DONE, TRAINED, KILLED), "COMPLETED", ""),
        (seen(EARLY, last_step=41), "FAILED", "trainer-0 exited with code 0, at step 41 of 100"),
        (seen(is_supervised=False), "FAILED", "supervisor died"),
        (seen(component("trainer-0", "lost"), is_supervised=False), "FAILED", "supervisor died"),
        (seen(DONE, TRAINED, is_supervised=False), "COMPLETED", ""),
    ],
)
def test_what_is_seen_ends_the_run(observation: Observation, state: str, reason: str):
    transition = judge(observation, record(), PLAN)

    assert transition is not None
    assert transition.state == state
    assert reason in transition.reason


def test_a_run_waits_for_the_trainer_after_the_orchestrator():
    assert judge(seen(DONE), record(), PLAN) is None


def test_a_run_runs_once_every_planned_component_has_started():
    all_started = judge(seen(), record(RunState.PENDING), PLAN)
    plan = PlanFacts(components=(*NAMES, "inference-1"), max_steps=100)
    some_started = judge(seen(), record(RunState.PENDING), plan)

    assert all_started is not None
    assert all_started.state is RunState.RUNNING
    assert some_started is not None
    assert some_started.state is RunState.CREATING


def test_a_terminal_record_stays():
    assert judge(seen(KILLED), record(RunState.STOPPED), PLAN) is None
