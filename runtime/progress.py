"""A run's progress as read from its metrics file: the last step, and the reward of each step.

Reads whole lines only: a writer may be in the middle of one. Used by `paddock wait` and the demo.
"""

import json
from collections.abc import Iterator
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
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # torn by a full disk or a kill; the next writer ended the line
                continue
            if REWARD in row:
                self.rewards[int(row["step"])] = float(row[REWARD])
                yield int(row["step"]), float(row[REWARD])


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
