"""A run's progress as read from its metrics file: the last step, and the reward of each step.

Reads whole lines only: a writer may be in the middle of one. Used by `paddock wait` and the demo.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

REWARD = "reward/mean"
"""The metric that the orchestrator writes once a step (runtime.rl.metrics)."""


@dataclass(slots=True)
class MetricsTail:
    """Follows a metrics file; `new_rewards` returns what was appended since the last call."""

    path: Path
    offset: int = 0
    rewards: dict[int, float] = field(default_factory=dict)

    def new_rewards(self) -> Iterator[tuple[int, float]]:
        """Yield (step, mean reward) of each row that came since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        for step, reward in rewards_in(whole):
            self.rewards[step] = reward
            yield step, reward


def rewards_in(lines: bytes) -> Iterator[tuple[int, float]]:
    """Yield (step, mean reward) of the rows in whole lines of a metrics file."""
    for line in lines.splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # torn by a full disk or a kill; the next writer ended the line
            continue
        if isinstance(row, dict) and REWARD in row:
            yield int(row["step"]), float(row[REWARD])


def last_step_in(lines: Iterable[str | bytes]) -> int | None:
    """Return the highest step in lines of a metrics file, None where there is none."""
    steps = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            steps.append(row["step"])
    return max(steps, default=None)


def reward_curve(rewards: dict[int, float], *, width: int = 60, height: int = 8) -> list[str]:
    """Return the reward curve as lines of text, values 0 to 1, `width` buckets of steps."""
    if not rewards:
        return ["no reward was written"]
    steps = sorted(rewards)
    columns = min(width, len(steps))
    buckets = [
        [
            rewards[step]
            for step in steps[i * len(steps) // columns : (i + 1) * len(steps) // columns]
        ]
        for i in range(columns)
    ]
    means = [sum(bucket) / len(bucket) for bucket in buckets]
    lines = []
    for row in range(height, 0, -1):
        low = (row - 1) / height
        marks = "".join("#" if value > low else " " for value in means)
        lines.append(f"{row / height:5.2f} |{marks}")
    lines.append(f"      +{'-' * columns}")
    lines.append(f"       step {steps[0]} to {steps[-1]}")
    return lines
