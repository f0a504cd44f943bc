"""Taskset `reverse-text`: reverse a few random letters. Data is generated, nothing is downloaded.

A package at the top level of PYTHONPATH, because verifiers imports a taskset by its id.
"""

import random
from collections.abc import Iterator
from difflib import SequenceMatcher

import verifiers.v1 as vf

__all__ = ["ReverseTextTaskset"]

LETTERS = "abcdefgh"
"""Few letters, so that a tiny model knows the task; any text works with a larger `letters`."""


class ReverseTextData(vf.TaskData):
    """One text and its reversal."""

    answer: str


class ReverseTextTask(vf.Task[ReverseTextData]):
    """Answer with the reversed text, in one turn."""

    @vf.stop
    async def one_turn(self, trace: vf.Trace) -> bool:
        """Stop after the first reply."""
        return trace.num_turns >= 1

    @vf.reward(weight=1.0)
    async def similarity(self, trace: vf.Trace) -> float:
        """Score the reply by its similarity to the answer, 0 to 1."""
        return SequenceMatcher(None, trace.last_reply.strip(), self.data.answer).ratio()

    @vf.metric
    async def exact(self, trace: vf.Trace) -> float:
        """Tell whether the reply is the answer."""
        return float(trace.last_reply.strip() == self.data.answer)


class ReverseTextConfig(vf.TasksetConfig):
    """Size of the generated data.

    `dataset_name` and `dataset_split` are accepted so that a file written for the hub's taskset of
    this id loads; the data is generated all the same.
    """

    num_tasks: int = 2000
    min_letters: int = 3
    max_letters: int = 4
    letters: str = LETTERS
    seed: int = 0
    dataset_name: str | None = None
    dataset_split: str | None = None


class ReverseTextTaskset(vf.Taskset[ReverseTextTask, ReverseTextConfig]):
    """Random strings of a few letters."""

    def load(self) -> Iterator[ReverseTextTask]:
        """Yield the tasks; the same seed gives the same tasks."""
        rng = random.Random(self.config.seed)
        for _ in range(self.config.num_tasks):
            count = rng.randint(self.config.min_letters, self.config.max_letters)
            text = "".join(rng.choice(self.config.letters) for _ in range(count))
            data = ReverseTextData.model_validate(
                {"prompt": text, "system_prompt": "Reverse the text.", "answer": text[::-1]}
            )
            yield ReverseTextTask(data, self.config.task)
