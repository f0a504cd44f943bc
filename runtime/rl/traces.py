"""Traces on disk: `rollouts/step_N/<split>/{all,effective}/traces.jsonl`, one JSON trace a line."""

import json
from collections.abc import Sequence
from pathlib import Path

from runtime.rl.rollouts import Rollout
from runtime.rl.steps import step_folder, write_whole


def write_traces(
    rollouts: Path,
    step: int,
    split: str,
    *,
    delivered: Sequence[Rollout],
    effective: Sequence[Rollout],
) -> None:
    """Write the traces of a step: all that were delivered, and those that count."""
    lines = {id(item): json.dumps(_trace(item)) for item in delivered}
    for kind, items in (("all", delivered), ("effective", effective)):
        text = "".join(f"{lines[id(item)]}\n" for item in items)
        write_whole(step_folder(rollouts, step) / split / kind / "traces.jsonl", text.encode())


def _trace(rollout: Rollout) -> dict[str, object]:
    trace = rollout.trace.model_dump(mode="json") if rollout.trace is not None else {}
    return {
        **trace,
        "source": rollout.source,
        "group": rollout.group,
        "reward": rollout.reward,
        "advantage": rollout.advantage,
        "policy": {"start": rollout.start_version, "end": rollout.end_version},
        "error": rollout.error,
    }
