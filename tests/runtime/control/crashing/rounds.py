"""The rounds of a seed: what is dispatched, what is wished for it, what is killed when. Pure."""

import random
from dataclasses import dataclass
from enum import StrEnum

from runtime.control.operations import OperationKind

COMPONENTS = ("inference-0", "env-train-reverse-text", "orchestrator", "trainer-0")


class Victim(StrEnum):
    """What a round kills with SIGKILL."""

    SERVER = "server"
    WORKER = "worker"
    ENGINE = "engine"
    SUPERVISOR = "supervisor"
    WRAPPER = "wrapper"
    COMPONENT = "component"


class Intent(StrEnum):
    """What becomes of a run where nothing is killed."""

    NONE = "none"
    STOP = "stop"
    FAIL = "fail"


OF_THE_RUN = frozenset({Victim.SUPERVISOR, Victim.WRAPPER, Victim.COMPONENT})
"""Victims with which the run itself loses something."""

OPERATIONS = {
    OperationKind.MAKE: 2.5,
    OperationKind.UP: 5.0,
    OperationKind.DESTROY: 3.0,
    OperationKind.REMOVE: 1.0,
}
"""Seconds within which an operation is hit, by its kind."""

SERVER_WITHIN_S = 15.0
STOP_WITHIN_S = 8.0
STOPPED_SECONDS = 120.0
"""What a run would take that is to be stopped: longer than it may take to hear of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One run and one kill; `delay_s` counts from the moment that the victim is there."""

    number: int
    intent: Intent
    seconds: float
    has_secret: bool
    stop_after_s: float
    is_stopped_running: bool
    """Whether the stop counts from the moment that the run is RUNNING, not from its dispatch."""
    victim: Victim
    delay_s: float
    operation: OperationKind = OperationKind.UP
    """In which operation a worker or an engine is killed."""
    component: str = COMPONENTS[0]
    """Which component, or the wrapper of which, is killed."""

    @property
    def behaviour(self) -> str:
        """Return the run's name, which tells the stand-in how to behave."""
        kind = "fails" if self.intent is Intent.FAIL else "ends"
        return f"{kind}-{round(self.seconds * 1000)}"

    @property
    def words(self) -> str:
        """Return what is planned, for people."""
        where = ""
        if self.victim in {Victim.WORKER, Victim.ENGINE}:
            where = f" in {self.operation}"
        elif self.victim in {Victim.WRAPPER, Victim.COMPONENT}:
            where = f" {self.component}"
        return f"{self.intent}, kill -9 {self.victim}{where}"


def plan_rounds(num_rounds: int, seed: int) -> list[Round]:
    """Return the rounds that a seed gives."""
    source = random.Random(seed)
    return [_plan_round(number, source) for number in range(1, num_rounds + 1)]


def _plan_round(number: int, source: random.Random) -> Round:
    victim = source.choice(list(Victim))
    intent = source.choice(list(Intent))
    operation = source.choice([OperationKind.UP, *OPERATIONS])
    seconds = source.uniform(0.5, 3.0)
    longest_s = OPERATIONS[operation]
    if victim is Victim.SERVER:
        longest_s = SERVER_WITHIN_S
    elif victim in OF_THE_RUN:
        longest_s = seconds
    is_stopped_running = victim in OF_THE_RUN or source.random() < 0.5
    return Round(
        number=number,
        intent=intent,
        seconds=STOPPED_SECONDS if intent is Intent.STOP else seconds,
        has_secret=source.random() < 0.5,
        stop_after_s=source.uniform(0.0, seconds if is_stopped_running else STOP_WITHIN_S),
        is_stopped_running=is_stopped_running,
        victim=victim,
        delay_s=source.uniform(0.0, longest_s),
        operation=operation,
        component=source.choice(COMPONENTS),
    )
