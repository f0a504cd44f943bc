"""Taskset `arithmetic`: add two small numbers. Data is generated, nothing is downloaded.

A package at the top level of PYTHONPATH, because verifiers imports a taskset by its id.
"""

import random
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["ArithmeticTaskset"]


class ArithmeticData(vf.TaskData):
    """One sum and its value."""

    answer: str


class ArithmeticTask(vf.Task[ArithmeticData]):
    """Answer with the number, in one turn."""

    @vf.stop
    async def one_turn(self, trace: vf.Trace) -> bool:
        """Stop after the first reply."""
        return trace.num_turns >= 1

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        """Score 1 for the right number, else 0."""
        return float(trace.last_reply.strip() == self.data.answer)

    @vf.metric
    async def is_number(self, trace: vf.Trace) -> float:
        """Tell whether the reply is a number at all."""
        return float(trace.last_reply.strip().isdigit())


class ArithmeticConfig(vf.TasksetConfig):
    """Size of the generated data."""

    num_tasks: int = 2000
    max_operand: int = 9
    seed: int = 0


class ArithmeticTaskset(vf.Taskset[ArithmeticTask, ArithmeticConfig]):
    """Sums of two numbers from 0 to `max_operand`."""

    def load(self) -> Iterator[ArithmeticTask]:
        """Yield the tasks; the same seed gives the same tasks."""
        rng = random.Random(self.config.seed)
        for _ in range(self.config.num_tasks):
            left, right = (rng.randint(0, self.config.max_operand) for _ in range(2))
            data = ArithmeticData.model_validate(
                {
                    "prompt": f"{left}+{right}",
                    "system_prompt": "Add the numbers.",
                    "answer": str(left + right),
                }
            )
            yield ArithmeticTask(data, self.config.task)
